"""What a fresh process imports when it is to call a function: asked before anything is measured.

`python -m lynxbench.run.loaded_code TARGET FILE` is the process's side.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from lynxbench.engines.callable import resolve
from lynxbench.errors import CannotRun, LynxbenchError, OwnCodeFailed
from lynxbench.load.fresh_process import last_words

IMPORT_LIMIT_S = 600.0


def loaded_files(target: str) -> dict[str, Path]:
    """Module by module, the files behind `module:function` in a fresh process here; OwnCodeFailed where it fails."""
    with tempfile.TemporaryDirectory(prefix="lynxbench-imports-") as folder:
        answer, errors = Path(folder) / "loaded.json", Path(folder) / "stderr.txt"
        with errors.open("wb") as log:
            try:
                done = subprocess.run(
                    [sys.executable, "-P", "-m", "lynxbench.run.loaded_code", target, str(answer)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    timeout=IMPORT_LIMIT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise CannotRun(f"{target}: its import did not end within {IMPORT_LIMIT_S:g} s") from None
        if not answer.exists():
            raise OwnCodeFailed(f"{target}: its import ended with code {done.returncode}: {last_words(errors)}")
        document = json.loads(answer.read_text(encoding="utf-8"))
    if document["error"]:
        raise OwnCodeFailed(document["error"])
    return {name: Path(file) for name, file in document["files"].items()}


def main() -> None:
    """Import, and write down what is loaded then."""
    target, answer = sys.argv[1:]
    error = ""
    try:
        resolve(target)
    except LynxbenchError as failed:
        error = str(failed)
    files = {name: getattr(module, "__file__", None) for name, module in tuple(sys.modules.items())}
    known = {name: str(Path(file).resolve()) for name, file in files.items() if isinstance(file, str)}
    Path(answer).write_text(json.dumps({"error": error, "files": known}), encoding="utf-8")


if __name__ == "__main__":
    main()
