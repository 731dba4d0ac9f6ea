"""The lab's fixtures: two QEMU guests (``qemu_lab``) and two containers (``docker_lab``), once per session.

Both give a ``LabSession``:

* ``session.lab``: the ``clusterctl.lab.Lab`` (``nodes``, ``inventory_path``, ``known_hosts_path``, ``identity_file``,
  ``directory``); nodes are ``node1`` and ``node2``, each with ``name``, ``address``, ``port``, ``user``,
  ``fabric_address`` and ``fabric_interface`` (the network between the nodes). It is always the current record: after
  ``kill`` and ``start`` it has the new process ids.
* ``session.run(name, command, timeout_s=120, check=True)``: one shell command line on a node through OpenSSH;
  returns the ``subprocess.CompletedProcess[str]``; with ``check``, a status other than 0 fails the test with both
  outputs. ``session.output(name, command)`` is its stripped stdout.
* ``session.kill(name)``: power loss of a node; ``session.start(name)``: boot it again with the same disk, and wait for
  SSH; ``session.reboot(name)``: a clean reboot from inside, waits until the new boot answers.

The QEMU guests have Debian 12, root by key, a user ``operator`` with sudo without password, and this PCI layout:
root ports 00:10.0 (behind it the "GPU", 01:00.0, vendor:device 1234:11e8), 00:11.0 (the "NIC", 02:00.0, 8086:10d3,
interface ``fabric0`` with RDMA device ``rxe0``), 00:12.0 (a device of neither kind) and 00:13.0 (empty).
In the containers the venv of the running interpreter is mounted read-only at its own path, so ``sys.executable`` is
a python there, with everything that is installed in the venv.

Tests that break a node must mend it (``start``) before they end: the guests are shared by the whole session.
What is missing on this machine skips the tests with the reason; with ``CI=true`` it fails them.
"""
