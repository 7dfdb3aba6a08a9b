# SPDX-License-Identifier: Apache-2.0
"""Scripts and numbers inside one HTML file, such that no parser mistakes them for markup."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import lru_cache

_BUNDLE_EXPORT = "window.vegaEmbed = vegaEmbed;"


@lru_cache(maxsize=1)
def chart_library() -> str:
    """Give Vega and its embedding as one script; putting it together takes a second."""
    import vl_convert

    return inline_script(vl_convert.javascript_bundle(_BUNDLE_EXPORT))


def inline_script(text: str) -> str:
    """Make script text safe inside a script element, where only `</script` and `<!--` end it."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("</script", "<\\/script").replace("<!--", "\\x3C!--")


def inline_json(content: object) -> str:
    """Write JSON that no HTML parser can mistake for markup."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def security_policy(*scripts: str) -> str:
    """Give the policy of a page that runs these scripts, known by their hashes, and asks for nothing."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()) for script in scripts)
    known = " ".join(f"'sha256-{digest.decode('ascii')}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {known}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
