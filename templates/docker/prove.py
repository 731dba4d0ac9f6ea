# Loads the library as a rank does and says what was mapped; see prove.sh.
import contextlib
import hashlib
import io
import os
import re
import sys
from pathlib import Path

said = io.StringIO()
with contextlib.redirect_stdout(said):
    exec(os.environ["VERSION_PROGRAM"])
fields = [line.split(None, 5) for line in Path("/proc/self/maps").read_text().splitlines()]
paths = {field[5].strip() for field in fields if len(field) == 6 and field[1].startswith("r-x")}
lines = ["version\t" + said.getvalue().strip()]
for kind, pattern in (("rank", os.environ["MAPPED"]), ("beside", os.environ["BESIDE"])):
    for path in sorted(path for path in paths if pattern and re.search(pattern, path)):
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        lines.append("\t".join((kind, "slot " + os.environ["SLOT"], str(os.getpid()), digest, path)))
sys.stdout.write("\n".join(lines) + "\n")
