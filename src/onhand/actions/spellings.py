"""How do agents of other houses spell the arguments of our tools? One table; a model is shown only our own words.

Whatever is sent under two names at once is refused and not guessed between. The one word with a unit of its own is
`timeout`: milliseconds, as whoever leaves the unit out of the name counts them; ours is `timeout_s`.
"""

from collections.abc import Mapping

from onhand.tools.tool import Alias

_FILE = {"file_path": "path", "filePath": "path"}
_HASH = {"expectedHash": "expected_hash"}
_FOUND = {"cwd": "path", "maxResults": "limit", "max_results": "limit"}
_MILLISECONDS = Alias("timeout_s", per=1000)

SPELLINGS: Mapping[str, Mapping[str, str | Alias]] = {
    "read_file": {**_FILE, "startLine": "start_line", "endLine": "end_line"},
    "list_files": _FILE,
    "stat_file": _FILE,
    "write_file": {**_FILE, **_HASH, "createDirs": "create_dirs"},
    "edit_file": {
        **_FILE,
        **_HASH,
        **dict.fromkeys(("oldString", "oldText", "old_text"), "old_string"),
        **dict.fromkeys(("newString", "newText", "new_text"), "new_string"),
        "replaceAll": "replace_all",
    },
    "glob": _FOUND,
    "grep": {**_FOUND, "ignoreCase": "ignore_case", "include": "glob", "fixed_strings": "literal"},
    "git": {"arguments": "args", "cwd": "path"},
    "run_command": dict.fromkeys(("timeout", "timeout_ms", "timeoutMs"), _MILLISECONDS),
}
