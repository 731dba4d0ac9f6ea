"""The Horovod API on collective_core: `import collective_core.horovod.torch as hvd`.

Modules have the names of Horovod's, so that `alias` can put them in its place for scripts that are not to be changed.
docs/horovod.md says what differs. Importing this package loads nothing heavy.
"""
