"""The functions that polars writes, with their names in our tree and their options: see ``polars_forms``."""

FUNCTIONS = """
Abs                          abs
Append                       append                  upcast
ApproxNUnique                approx_n_unique
ApproxQuantile               approx_quantile         method:word error:float use_formal_bound
ArgMax                       arg_max
ArgMin                       arg_min
ArgSort                      arg_sort                descending nulls_last
ArgUnique                    arg_unique
ArgWhere                     arg_where
ArrayExpr.ArgMax             arr.arg_max
ArrayExpr.ArgMin             arr.arg_min
ArrayExpr.Concat             concat_arr
ArrayExpr.Contains           arr.contains            nulls_equal
ArrayExpr.CountMatches       arr.count_matches
ArrayExpr.Dot                arr.dot
ArrayExpr.Explode            arr.explode             empty_as_null keep_nulls
ArrayExpr.Get                arr.get                 =null_on_oob
ArrayExpr.Join               arr.join                =ignore_nulls
ArrayExpr.Length             arr.len
ArrayExpr.Max                arr.max
ArrayExpr.Mean               arr.mean
ArrayExpr.Median             arr.median
ArrayExpr.Min                arr.min
ArrayExpr.Shift              arr.shift
ArrayExpr.Slice              arr.slice               #offset #length
ArrayExpr.Sort               arr.sort                descending nulls_last multithreaded maintain_order limit
ArrayExpr.Std                arr.std                 =ddof
ArrayExpr.Sum                arr.sum
ArrayExpr.ToList             arr.to_list
ArrayExpr.ToStruct           arr.to_struct           fields
ArrayExpr.Var                arr.var                 =ddof
AsStruct                     struct
Atan2                        arctan2
Bin                          bin                     method:bins labels include_intervals
BinaryExpr.Base64Decode      bin.base64_decode       =strict
BinaryExpr.Base64Encode      bin.base64_encode
BinaryExpr.Contains          bin.contains
BinaryExpr.EndsWith          bin.ends_with
BinaryExpr.Get               bin.get                 =null_on_oob
BinaryExpr.Head              bin.head
BinaryExpr.HexDecode         bin.hex_decode          =strict
BinaryExpr.HexEncode         bin.hex_encode
BinaryExpr.Reinterpret       bin.reinterpret         #dtype:type #is_little_endian
BinaryExpr.Size              bin.size
BinaryExpr.Slice             bin.slice
BinaryExpr.StartsWith        bin.starts_with
BinaryExpr.Tail              bin.tail
Bitwise.And                  bitwise_and
Bitwise.CountOnes            bitwise_count_ones
Bitwise.CountZeros           bitwise_count_zeros
Bitwise.LeadingOnes          bitwise_leading_ones
Bitwise.LeadingZeros         bitwise_leading_zeros
Bitwise.Or                   bitwise_or
Bitwise.TrailingOnes         bitwise_trailing_ones
Bitwise.TrailingZeros        bitwise_trailing_zeros
Bitwise.Xor                  bitwise_xor
Boolean.All                  all                     ignore_nulls
Boolean.AllHorizontal        all_horizontal
Boolean.Any                  any                     ignore_nulls
Boolean.AnyHorizontal        any_horizontal
Boolean.HasNulls             has_nulls
Boolean.IsBetween            is_between              closed:word
Boolean.IsClose              is_close                abs_tol:float rel_tol:float nans_equal
Boolean.IsDuplicated         is_duplicated
Boolean.IsEmpty              is_empty                ignore_nulls
Boolean.IsFinite             is_finite
Boolean.IsFirstDistinct      is_first_distinct
Boolean.IsIn                 is_in                   nulls_equal
Boolean.IsInfinite           is_infinite
Boolean.IsLastDistinct       is_last_distinct
Boolean.IsNan                is_nan
Boolean.IsNotNan             is_not_nan
Boolean.IsNotNull            is_not_null
Boolean.IsNull               is_null
Boolean.IsSorted             is_sorted               descending nulls_last
Boolean.IsUnique             is_unique
Boolean.Not                  not
Business.AddBusinessDay      dt.add_business_days    week_mask roll:word
Business.BusinessDayCount    business_day_count      week_mask
Business.IsBusinessDay       dt.is_business_day      week_mask
Categorical.EndsWith         cat.ends_with           =suffix
Categorical.LenBytes         cat.len_bytes
Categorical.LenChars         cat.len_chars
Categorical.Physical         cat.physical
Categorical.Slice            cat.slice               #offset #length
Categorical.StartsWith       cat.starts_with         =prefix
Categorical.To               cat.to                  #dtype:type #strict
Ceil                         ceil
Clip                         clip                    has_min has_max
Coalesce                     coalesce
Correlation                  corr                    method:variant
CumCount                     cum_count               reverse
CumMax                       cum_max                 reverse
CumMin                       cum_min                 reverse
CumProd                      cum_prod                reverse
CumSum                       cum_sum                 reverse
Cut                          cut                     breaks:floats labels left_closed include_breaks
Diff                         diff                    =null_behavior:word
DropNans                     drop_nans
DropNulls                    drop_nulls
Entropy                      entropy                 base:float normalize
Erf                          erf
Erfc                         erfc
EwmMean                      ewm_mean                options
EwmMeanBy                    ewm_mean_by             half_life
EwmStd                       ewm_std                 options
EwmSum                       ewm_sum                 options
EwmSumBy                     ewm_sum_by              half_life
EwmVar                       ewm_var                 options
Exp                          exp
ExtendConstant               extend_constant
Extension.Storage            ext.storage
Extension.To                 ext.to                  =dtype:type
FillNull                     fill_null
FillNullWithStrategy         fill_null_by            =strategy:variant
Floor                        floor
GatherEvery                  gather_every            n offset
Hash                         hash                    =seed
Hist                         hist                    bin_count include_category include_breakpoint
IndexOf                      index_of
Interpolate                  interpolate             =method:word
InterpolateBy                interpolate_by
Kurtosis                     kurtosis                #fisher #bias
ListExpr.ArgMax              list.arg_max
ListExpr.ArgMin              list.arg_min
ListExpr.Concat              concat_list
ListExpr.Contains            list.contains           nulls_equal
ListExpr.CountMatches        list.count_matches
ListExpr.Diff                list.diff               n null_behavior:word
ListExpr.DropNulls           list.drop_nulls
ListExpr.Gather              list.gather             =null_on_oob
ListExpr.GatherEvery         list.gather_every
ListExpr.Get                 list.get                =null_on_oob
ListExpr.Join                list.join               =ignore_nulls
ListExpr.Length              list.len
ListExpr.Max                 list.max
ListExpr.Mean                list.mean
ListExpr.Median              list.median
ListExpr.Min                 list.min
ListExpr.Sample              list.sample             is_fraction with_replacement shuffle seed
ListExpr.SetOperation        list.set_operation      =operation:word
ListExpr.Shift               list.shift
ListExpr.Slice               list.slice
ListExpr.Sort                list.sort               descending nulls_last multithreaded maintain_order limit
ListExpr.Std                 list.std                =ddof
ListExpr.Sum                 list.sum
ListExpr.ToArray             list.to_array           =width
ListExpr.ToMap               list.to_map
ListExpr.ToStruct            list.to_struct          =fields
ListExpr.Var                 list.var                =ddof
Log                          log
Log1p                        log1p
LowerBound                   lower_bound
MapExpr.ContainsKey          map.contains_key
MapExpr.Entries              map.entries
MapExpr.Get                  map.get
MapExpr.Keys                 map.keys
MapExpr.Length               map.len
MapExpr.Values               map.values
MaxBy                        max_by
MaxHorizontal                max_horizontal
MeanHorizontal               mean_horizontal         ignore_nulls
MinBy                        min_by
MinHorizontal                min_horizontal
Mode                         mode                    maintain_order
Negate                       neg
NullCount                    null_count
PctChange                    pct_change
PeakMax                      peak_max
PeakMin                      peak_min
Pow.Cbrt                     cbrt
Pow.Generic                  pow
Pow.Sqrt                     sqrt
Product                      product
QCut                         qcut                    probs:floats labels left_closed allow_duplicates include_breaks
Quantile                     quantile                method:word
RLE                          rle
RLEID                        rle_id
Random                       random                  method:variant seed
Range.DateRange              date_range              interval closed:word arg_type:word
Range.DateRanges             date_ranges             interval closed:word arg_type:word
Range.DatetimeRange          datetime_range          interval closed:word time_unit:word time_zone:zone arg_type:word
Range.DatetimeRanges         datetime_ranges         interval closed:word time_unit:word time_zone:zone arg_type:word
Range.IntRange               int_range               step dtype:type
Range.IntRanges              int_ranges              dtype:type
Range.LinearSpace            linear_space            closed:word
Range.LinearSpaces           linear_spaces           closed:word array_width
Range.TimeRange              time_range              interval closed:word
Range.TimeRanges             time_ranges             interval closed:word
Rank                         rank                    options:rank seed
Reinterpret                  reinterpret             #signed #dtype:dtype
Repeat                       repeat
RepeatBy                     repeat_by
Replace                      replace
ReplaceStrict                replace_strict          return_dtype:type
Reshape                      reshape                 =dimensions
Reverse                      reverse
RollingExpr                  rolling_function        function options
RollingExprBy                rolling_function_by     function_by options
Round                        round                   decimals mode:word
RoundSF                      round_sig_figs          digits
SearchSorted                 search_sorted           side:word descending
SetSortedFlag                set_sorted              descending nulls_last
Shift                        shift
ShiftAndFill                 shift_and_fill
Sign                         sign
Skew                         skew                    =bias
Sql.IsIn                     sql.is_in               nulls_equal
Sql.Round                    sql.round               decimals
Sql.ToFloat                  sql.to_float
StringExpr.Base64Decode      str.base64_decode       =strict
StringExpr.Base64Encode      str.base64_encode
StringExpr.ConcatHorizontal  concat_str              delimiter ignore_nulls
StringExpr.ConcatVertical    str.join                delimiter ignore_nulls
StringExpr.Contains          str.contains            literal strict
StringExpr.ContainsAny       str.contains_any        ascii_case_insensitive
StringExpr.CountMatches      str.count_matches       =literal
StringExpr.EndsWith          str.ends_with
StringExpr.EscapeRegex       str.escape_regex
StringExpr.Extract           str.extract             =group
StringExpr.ExtractAll        str.extract_all
StringExpr.ExtractGroups     str.extract_groups      dtype:dtype pat
StringExpr.ExtractMany       str.extract_many        ascii_case_insensitive overlapping leftmost
StringExpr.Find              str.find                literal strict
StringExpr.FindMany          str.find_many           ascii_case_insensitive overlapping leftmost
StringExpr.Format            format                  format insertions
StringExpr.Head              str.head
StringExpr.HexDecode         str.hex_decode          =strict
StringExpr.HexEncode         str.hex_encode
StringExpr.JsonDecode        str.json_decode         =dtype:type
StringExpr.JsonPathMatch     str.json_path_match
StringExpr.LenBytes          str.len_bytes
StringExpr.LenChars          str.len_chars
StringExpr.Lowercase         str.to_lowercase
StringExpr.Normalize         str.normalize           form
StringExpr.PadEnd            str.pad_end             fill_char
StringExpr.PadStart          str.pad_start           fill_char
StringExpr.Replace           str.replace             n literal
StringExpr.ReplaceMany       str.replace_many        ascii_case_insensitive leftmost
StringExpr.Reverse           str.reverse
StringExpr.Slice             str.slice
StringExpr.Split             str.split               =inclusive
StringExpr.SplitExact        str.split_exact         n inclusive
StringExpr.SplitN            str.splitn              =n
StringExpr.SplitRegex        str.split_regex         inclusive strict
StringExpr.StartsWith        str.starts_with
StringExpr.StripChars        str.strip_chars
StringExpr.StripCharsEnd     str.strip_chars_end
StringExpr.StripCharsStart   str.strip_chars_start
StringExpr.StripPrefix       str.strip_prefix
StringExpr.StripSuffix       str.strip_suffix
StringExpr.Strptime          str.strptime            #dtype:type #options
StringExpr.Tail              str.tail
StringExpr.Titlecase         str.to_titlecase
StringExpr.ToDecimal         str.to_decimal          scale
StringExpr.ToInteger         str.to_integer          dtype:dtype strict
StringExpr.Uppercase         str.to_uppercase
StringExpr.ZFill             str.zfill
StructExpr.Drop              struct.drop             #names #strict
StructExpr.FieldByName       struct.field            =field
StructExpr.JsonEncode        struct.json_encode
StructExpr.MapFieldNames     name.map_fields         =function
StructExpr.PrefixFields      name.prefix_fields      =prefix
StructExpr.RenameFields      struct.rename_fields    =names
StructExpr.SelectFields      struct.select           =fields:selector
StructExpr.SuffixFields      name.suffix_fields      =suffix
SumHorizontal                sum_horizontal          ignore_nulls
TemporalExpr.BaseUtcOffset   dt.base_utc_offset
TemporalExpr.CastTimeUnit    dt.cast_time_unit       =time_unit:word
TemporalExpr.Century         dt.century
TemporalExpr.Combine         dt.combine              =time_unit:word
TemporalExpr.ConvertTimeZone dt.convert_time_zone    =time_zone:zone
TemporalExpr.DSTOffset       dt.dst_offset
TemporalExpr.Date            dt.date
TemporalExpr.DatetimeFunction datetime               time_unit:word time_zone:zone
TemporalExpr.Day             dt.day
TemporalExpr.DaysInMonth     dt.days_in_month
TemporalExpr.Duration        duration                =time_unit:word
TemporalExpr.Hour            dt.hour
TemporalExpr.IsLeapYear      dt.is_leap_year
TemporalExpr.IsoYear         dt.iso_year
TemporalExpr.Microsecond     dt.microsecond
TemporalExpr.Millennium      dt.millennium
TemporalExpr.Millisecond     dt.millisecond
TemporalExpr.Minute          dt.minute
TemporalExpr.Month           dt.month
TemporalExpr.MonthEnd        dt.month_end
TemporalExpr.MonthStart      dt.month_start
TemporalExpr.Nanosecond      dt.nanosecond
TemporalExpr.OffsetBy        dt.offset_by
TemporalExpr.OrdinalDay      dt.ordinal_day
TemporalExpr.Quarter         dt.quarter
TemporalExpr.Replace         dt.replace
TemporalExpr.ReplaceTimeZone dt.replace_time_zone    #time_zone:zone #non_existent:word
TemporalExpr.Round           dt.round
TemporalExpr.Second          dt.second
TemporalExpr.Time            dt.time
TemporalExpr.TimeStamp       dt.timestamp            =time_unit:word
TemporalExpr.ToString        dt.to_string            =format
TemporalExpr.TotalDays       dt.total_days           fractional
TemporalExpr.TotalHours      dt.total_hours          fractional
TemporalExpr.TotalMicroseconds dt.total_microseconds fractional
TemporalExpr.TotalMilliseconds dt.total_milliseconds fractional
TemporalExpr.TotalMinutes    dt.total_minutes        fractional
TemporalExpr.TotalNanoseconds dt.total_nanoseconds   fractional
TemporalExpr.TotalSeconds    dt.total_seconds        fractional
TemporalExpr.Truncate        dt.truncate
TemporalExpr.Week            dt.week
TemporalExpr.WeekDay         dt.weekday
TemporalExpr.Year            dt.year
ToPhysical                   to_physical
TopK                         top_k                   descending
TopKBy                       top_k_by                descending
Trigonometry.ArcCos          arccos
Trigonometry.ArcCosh         arccosh
Trigonometry.ArcSin          arcsin
Trigonometry.ArcSinh         arcsinh
Trigonometry.ArcTan          arctan
Trigonometry.ArcTanh         arctanh
Trigonometry.Cos             cos
Trigonometry.Cosh            cosh
Trigonometry.Cot             cot
Trigonometry.Degrees         degrees
Trigonometry.Radians         radians
Trigonometry.Sin             sin
Trigonometry.Sinh            sinh
Trigonometry.Tan             tan
Trigonometry.Tanh            tanh
Truncate                     truncate                decimals
Unique                       unique                  =maintain_order
UniqueCounts                 unique_counts
UpperBound                   upper_bound
ValueCounts                  value_counts            sort parallel name normalize
"""
