"""Texts of OpenSSH: read ssh_config and known_hosts, and write both. No file is opened except known_hosts."""
