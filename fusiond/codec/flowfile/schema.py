"""The JSON Schema of flow files, for editors; made from the tables that read them.

A file that the schema refuses is refused by the reader. The reader also knows
rules that no schema can say: references, cycles, collisions, limits.
"""

import json

from fusiond.codec.flowfile.sections.flow import FLOW
from fusiond.codec.flowfile.shape.shape import JsonSchema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def flow_schema() -> JsonSchema:
    """Return the JSON Schema (draft 2020-12) of a flow file."""
    return {"$schema": DIALECT, "title": "Fusion flow", **FLOW.schema()}


def flow_schema_text() -> str:
    """Return the JSON Schema as the text of a file."""
    return json.dumps(flow_schema(), indent=2, ensure_ascii=True) + "\n"
