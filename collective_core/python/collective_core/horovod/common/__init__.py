"""What Horovod keeps in `horovod.common`, as far as scripts import it from there."""
