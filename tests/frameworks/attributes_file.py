"""Shared by the scripts attributes_*.py: the archive that tests/attributes.rs reads."""

import json
import os
import zipfile

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attributes")


def write(name, framework, cases, files):
    """Writes attributes/NAME.zip: the files, and cases.json. Equal files are stored once."""
    stored, names = {}, {}
    for file, content in files.items():
        names[file] = stored.setdefault(content, file)
    for case in cases:
        case["file"] = names[case["file"]]
        case["output"] = [round(value, 7) for value in case["output"]]
    path = os.path.join(FOLDER, name + ".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        entries = {"cases.json": json.dumps(dict(framework=framework, cases=cases)).encode()}
        for entry, content in sorted(dict(entries, **{file: content for content, file in stored.items()}).items()):
            archive.writestr(zipfile.ZipInfo(entry, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    print("%s: %d cases, %d files, %d bytes" % (path, len(cases), len(stored), os.path.getsize(path)))
