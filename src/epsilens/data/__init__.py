# SPDX-License-Identifier: Apache-2.0
"""The curator's table becomes checked arrays: reading, kinds, groups, missing values, encoding."""

from __future__ import annotations

from epsilens.data.atomic import replacing, write_text
from epsilens.data.binning import Bins, parse_bins
from epsilens.data.description import describe_table, likely_label
from epsilens.data.encoding import build_encoder, category_columns, check_categories
from epsilens.data.expressions import Expression, parse_expression, parse_group
from epsilens.data.files import SURVEY_PROVENANCE, TableFile, load_survey, read_table, write_table
from epsilens.data.frames import like, series_name, to_pandas, to_vector
from epsilens.data.missing import MISSING_CATEGORY, MissingPolicy, Settled, settle_missing
from epsilens.data.prepare import Prepared, declared_domains, prepare
from epsilens.data.schema import Column, Schema, infer_schema

__all__ = [
    "MISSING_CATEGORY",
    "SURVEY_PROVENANCE",
    "Bins",
    "Column",
    "Expression",
    "MissingPolicy",
    "Prepared",
    "Schema",
    "Settled",
    "TableFile",
    "build_encoder",
    "category_columns",
    "check_categories",
    "declared_domains",
    "describe_table",
    "infer_schema",
    "like",
    "likely_label",
    "load_survey",
    "parse_bins",
    "parse_expression",
    "parse_group",
    "prepare",
    "read_table",
    "replacing",
    "series_name",
    "settle_missing",
    "to_pandas",
    "to_vector",
    "write_table",
    "write_text",
]
