"""The server of profiled_servers.py as a process: `python profiled.py TRACE HOW [ARGUMENTS]`.

The folder for its traces is in its arguments (--profiler-config) or in its environment. It prints its address and
serves until its standard input closes.
"""

import asyncio
import os
import sys
from pathlib import Path

from lynxbench.run.profile_folder import folder_in_arguments
from profiled_servers import listen_profiled


async def main(trace: Path, how: str, folder: Path) -> None:
    """Serve until standard input closes."""
    url, _ = await listen_profiled(trace, how, folder)
    print(url, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    named = folder_in_arguments(sys.argv) or os.environ.get("VLLM_TORCH_PROFILER_DIR", "")
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], Path(named)))
