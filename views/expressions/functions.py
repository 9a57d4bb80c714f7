"""The supported functions by their names in our tree, grouped by how their results depend on rows."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ROW_BY_ROW = _names("""
    abs all_horizontal any_horizontal arccos arccosh arcsin arcsinh arctan arctan2 arctanh arr.arg_max arr.arg_min
    arr.contains arr.count_matches arr.dot arr.get arr.join arr.len arr.max arr.mean arr.median arr.min arr.shift
    arr.slice arr.sort arr.std arr.sum arr.to_list arr.to_struct arr.var bin.base64_decode bin.base64_encode
    bin.contains bin.ends_with bin.get bin.head bin.hex_decode bin.hex_encode bin.reinterpret bin.size bin.slice
    bin.starts_with bin.tail bitwise_count_ones bitwise_count_zeros bitwise_leading_ones bitwise_leading_zeros
    bitwise_trailing_ones bitwise_trailing_zeros business_day_count cat.ends_with cat.len_bytes cat.len_chars
    cat.physical cat.slice cat.starts_with cat.to cbrt ceil clip coalesce concat_arr concat_list concat_str cos cosh
    cot cut date_ranges datetime datetime_ranges degrees dt.add_business_days dt.base_utc_offset dt.cast_time_unit
    dt.century dt.combine dt.convert_time_zone dt.date dt.datetime dt.day dt.days_in_month dt.dst_offset dt.hour
    dt.is_business_day dt.is_leap_year dt.iso_year dt.microsecond dt.millennium dt.millisecond dt.minute dt.month
    dt.month_end dt.month_start dt.nanosecond dt.offset_by dt.ordinal_day dt.quarter dt.replace dt.replace_time_zone
    dt.round dt.second dt.time dt.timestamp dt.to_string dt.total_days dt.total_hours dt.total_microseconds
    dt.total_milliseconds dt.total_minutes dt.total_nanoseconds dt.total_seconds dt.truncate dt.week dt.weekday
    dt.with_time_unit dt.year duration erf erfc exp ext.storage ext.to fill_null floor format hash int_ranges
    is_between is_close is_finite is_in is_infinite is_nan is_not_nan is_not_null is_null linear_spaces list.arg_max
    list.arg_min list.contains list.count_matches list.diff list.drop_nulls list.gather list.gather_every list.get
    list.join list.len list.max list.mean list.median list.min list.sample list.set_operation list.shift list.slice
    list.sort list.std list.sum list.to_array list.to_map list.to_struct list.var log log1p map.contains_key
    map.entries map.get map.keys map.len map.values max_horizontal mean_horizontal min_horizontal name.map_fields
    name.prefix_fields name.suffix_fields neg not pow radians reinterpret repeat_by replace replace_strict round
    round_sig_figs set_sorted sign sin sinh sql.add sql.div sql.eq sql.eq_missing sql.floordiv sql.ge sql.gt
    sql.is_in sql.le sql.lt sql.mod sql.mul sql.round sql.sub sql.to_float sqrt str.base64_decode str.base64_encode
    str.contains str.contains_any str.count_matches str.ends_with str.escape_regex str.extract str.extract_all
    str.extract_groups str.extract_many str.find str.find_many str.head str.hex_decode str.hex_encode
    str.json_decode str.json_path_match str.len_bytes str.len_chars str.normalize str.pad_end str.pad_start
    str.replace str.replace_many str.reverse str.slice str.split str.split_exact str.split_regex str.splitn
    str.starts_with str.strip_chars str.strip_chars_end str.strip_chars_start str.strip_prefix str.strip_suffix
    str.strptime str.tail str.to_decimal str.to_integer str.to_lowercase str.to_titlecase str.to_uppercase str.zfill
    struct struct.drop struct.field struct.json_encode struct.rename_fields struct.select sum_horizontal tan tanh
    time_ranges to_physical truncate
""")
"""Functions that compute a value of each row by itself, as far as their name decides it."""

ONE_VALUE = _names("""
    all any approx_n_unique approx_quantile arg_max arg_min bitwise_and bitwise_or bitwise_xor corr entropy
    has_nulls index_of is_empty is_sorted kurtosis max_by min_by null_count product quantile skew str.join
""")
"""Functions that compute one value from all rows, beside the aggregates."""

SAME_ROWS = _names("""
    arg_sort bin cum_count cum_max cum_min cum_prod cum_sum diff ewm_mean ewm_mean_by ewm_std ewm_sum ewm_sum_by
    ewm_var fill_null_by interpolate interpolate_by is_duplicated is_first_distinct is_last_distinct is_unique
    lower_bound pct_change peak_max peak_min qcut rank reverse rle_id rolling_function rolling_function_by shift
    shift_and_fill upper_bound
""")
"""Functions that compute a value for each row from that row and others."""

OTHER_ROWS = _names("""
    append arg_unique arg_where arr.explode cat.get_categories date_range datetime_range drop_nans drop_nulls
    extend_constant gather_every hist int_range linear_space mode random rechunk repeat reshape rle search_sorted
    time_range top_k top_k_by unique unique_counts value_counts
""")
"""Functions that return more rows or fewer."""
