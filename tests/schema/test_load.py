import json

import pytest

from tfapp.schema.load import KINDS, effective_schema, schema_text


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_is_that_of_the_schema(kind):
    assert json.loads(schema_text(kind)) == effective_schema(kind)


@pytest.mark.parametrize("kind", ["", "appconfig", "../setup"])
def test_there_are_no_other_kinds(kind):
    with pytest.raises(ValueError, match="expected one of metainfo, appConfig, resources"):
        schema_text(kind)


def test_an_extension_is_for_app_config_alone():
    extra = {"properties": {"site.global.x": {"type": "string"}}}
    assert effective_schema("metainfo", extra) == effective_schema("metainfo")
    assert "site.global.x" in effective_schema("appConfig", extra)["$defs"]["config"]["properties"]
    assert "site.global.x" not in effective_schema("appConfig")["$defs"]["config"]["properties"]


def test_references_of_an_extension_stay_inside_it():
    extra = {
        "properties": {"site.global.x": {"$ref": "#/$defs/keys"}},
        "$defs": {"keys": {"type": "string"}},
    }
    config = effective_schema("appConfig", extra)["$defs"]["config"]
    assert config["properties"]["site.global.x"] == {"$ref": "#/$defs/package/$defs/keys"}
