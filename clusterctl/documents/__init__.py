"""The JSON documents that clusterctl writes: one model per schema ``clusterctl.<name>/<n>``.

A model is the only place that knows a schema: its name, its fields with types and units, and the words of each status.
Producers build the model, readers validate with it. The package is pure and imports pydantic only.
"""
