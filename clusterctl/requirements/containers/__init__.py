"""Requirements of containers: docker and NVIDIA's container toolkit."""
