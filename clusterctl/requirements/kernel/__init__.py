"""Requirements of the kernel's settings: sysctls, frequency governor, limits of sessions."""
