"""What a statement about the catalogues may be made of: functions, nodes of a tree, types."""

from __future__ import annotations

from sqlglot import exp

ALLOWED_NAMES = (
    "coalesce count max min sum avg lower upper length char_length substring substr left right "
    "trim ltrim rtrim btrim replace concat concat_ws string_agg group_concat array_agg array any "
    "all exists case cast try_cast nullif greatest least abs row_number rank dense_rank "
    "generate_series exploding_generate_series unnest explode array_to_string array_length "
    "array_size position strpos "
    "str_position split_part starts_with bool_and bool_or logical_and logical_or every and or xor "
    "not if array_contains round floor ceil mod power regexp_replace regexp_matches regexp_like "
    "regexp_ilike chr ascii reverse lag lead first_value last_value now current_date "
    "current_timestamp current_time date_trunc timestamp_trunc extract to_char md5 initcap sign "
    "arraycontains array_contains_all string_to_array split array_concat array_append "
    "cardinality is_nan"
)
ALLOWED = frozenset(ALLOWED_NAMES.split())
NODE_NAMES = (
    "Select SetOperation Union Intersect Except Subquery Values From Where Join Table TableAlias "
    "Identifier Column Star Alias Literal Null Boolean Paren Not Is In Between Like ILike Escape "
    "Neg DataType DataTypeParam With CTE Group Having Order Ordered Limit Offset Fetch Distinct "
    "Bracket Slice Tuple Dot Operator Lateral Window WindowSpec Filter WithinGroup Interval Var "
    "Any All Exists ObjectIdentifier ByteString RawString National Parameter Placeholder "
    "AtTimeZone HavingMax"
)
NODES = frozenset(NODE_NAMES.split())
CAST_NAMES = (
    "int4 int8 int2 int bigint smallint integer uint bool boolean float8 float4 real double float "
    "text varchar bpchar char date timestamp timestamptz time numeric decimal interval"
)
CASTS = frozenset(CAST_NAMES.split())
CONSTANT = {
    "TRUE": "pg_table_is_visible pg_type_is_visible pg_function_is_visible has_table_privilege "
    "has_schema_privilege has_database_privilege has_column_privilege has_any_column_privilege "
    "has_function_privilege has_sequence_privilege pg_has_role pg_operator_is_visible "
    "pg_collation_is_visible pg_opclass_is_visible pg_statistics_obj_is_visible "
    "has_type_privilege has_tablespace_privilege row_security_active",
    "FALSE": "pg_is_in_recovery pg_is_other_temp_schema pg_relation_is_publishable "
    "pg_advisory_unlock_all",
    "CAST(NULL AS VARCHAR)": "pg_get_expr pg_get_constraintdef pg_get_indexdef pg_get_viewdef "
    "pg_get_ruledef pg_get_triggerdef pg_get_functiondef pg_get_partkeydef shobj_description "
    "pg_get_statisticsobjdef_columns pg_get_statisticsobjdef pg_get_serial_sequence "
    "pg_get_function_arguments pg_get_function_identity_arguments pg_get_function_result "
    "inet_server_addr inet_client_addr pg_tablespace_location pg_get_partition_constraintdef "
    "pg_get_replica_identity_index txid_current_if_assigned "
    "pg_sequence_last_value format json_build_object jsonb_build_object json_agg to_json",
    "CAST(0 AS BIGINT)": "pg_relation_size pg_total_relation_size pg_table_size pg_indexes_size "
    "pg_database_size pg_tablespace_size pg_stat_get_numscans pg_column_size",
    "CAST(0 AS INTEGER)": "age inet_server_port inet_client_port pg_my_temp_schema "
    "pg_stat_get_live_tuples pg_trigger_depth pg_blocking_pids",
    "CAST(1 AS BIGINT)": "txid_current pg_current_xact_id",
    "CAST(6 AS INTEGER)": "pg_char_to_encoding",
    "'UTF8'": "pg_encoding_to_char getdatabaseencoding pg_client_encoding",
    "'0 bytes'": "pg_size_pretty",
    "['pg_catalog', 'public']": "current_schemas",
    "CAST(NULL AS TIMESTAMP)": "pg_postmaster_start_time pg_conf_load_time "
    "pg_last_xact_replay_timestamp pg_stat_file",
}
CONSTANTS = {name: value for value, names in CONSTANT.items() for name in names.split()}
MACROS = {  # of catalogue.py, with how many of the arguments
    "format_type": ("sulq_format_type", 1), "to_regclass": ("sulq_relation", 1),
    "to_regtype": ("sulq_type", 1), "to_regnamespace": ("sulq_namespace", 1),
    "col_description": ("sulq_described", 2),
}  # fmt: skip
REGISTERED = {"regclass": "sulq_relation", "regtype": "sulq_type", "regnamespace": "sulq_namespace"}
NUMBERS = ("oid", "xid", "cid", "regproc", "regprocedure", "regoper")
TEXTS = ("name", "char", "text", "bpchar", "sql_identifier", "character_data", "yes_or_no",
         "cstring", "regrole", "aclitem", "inet", "cardinal_number", "json", "jsonb")  # fmt: skip
OPERATORS = {"~": exp.RegexpLike, "~*": exp.RegexpILike, "=": exp.EQ, "<>": exp.NEQ, "~~": exp.Like,
             "~~*": exp.ILike, "+": exp.Add, "-": exp.Sub, "||": exp.DPipe, ">": exp.GT,
             "<": exp.LT, ">=": exp.GTE, "<=": exp.LTE, "@>": exp.ArrayContainsAll}  # fmt: skip
OWN = ("current_user", "session_user", "user", "current_catalog", "current_database", "version",
       "current_schema", "pg_backend_pid", "current_setting", "set_config", "pg_get_userbyid",
       "obj_description", "quote_ident", "quote_literal", "array_upper", "array_lower",
       "current_role", "current_version")  # fmt: skip
