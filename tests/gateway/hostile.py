"""Words that no polite client sends: each has broken some server somewhere."""

# Values of a field, as they stand in JSON or nearly.
TOKENS = [
    "NaN", "-Infinity", "1e999", "-1e999", "1e-999", "9" * 400, "-" + "9" * 30, "18446744073709551616", "-0", "-0.0",
    "1.0", "0.1e1", "9007199254740993", "1e15", "01", "+1", ".5", "1.", "0x10", "nul", "True", "'a'", "", ",",
    "/**/1", r'"\ud800"', r'"\udc00\ud800"', r'"\u0000"', r'"a\u0000b"', '"\x01"', '"\x00"', r'"\x41"', '"\u2028"',
    '"\ufeff"', '"' + "a" * 5000 + '"', '"' + "é" * 70_000 + '"', "[" * 63 + "]" * 63, "[" * 70 + "]" * 70,
    "[" * 20_000, '{"a":' * 40 + "1" + "}" * 40, '{"a":' * 3000 + "1" + "}" * 3000, '{"a":1,"a":2}', '{"":null}',
    '{"\\u0000":1}', '{"\\ud800":1}', '{"__proto__":{"a":1}}', "[]", "{}", "null", "true", "1", '"1"', "[null]",
    '"2027-01-31T09:00:00Z"', '"0001-01-01T00:00:00+23:59"', '"9999-12-31T23:59:59-23:59"',
    '"9999-12-31T23:59:59.999999Z"', '"2027-13-45T99:99:99Z"',
    '"* * * * *"', '"@daily"', '"0 0 30 2 *"', '"../../etc/passwd"', '"a\\nb"', '"\\r\\nX: y"', '"a b"',
    '"${jndi:x}"', '"\\u202e"',
]  # fmt: skip

# Whole bodies.
BODIES = [
    b"", b" ", b"null", b"[]", b"1", b'"a"', b"{", b"}", b"{}", b"{}{}", b"{} x", b"\xef\xbb\xbf{}",
    b"\xff\xfe{\x00}\x00", b"\x00", b'{"a"}', b'{"a":}', b"{'a':1}", b'{"a":1,}', b'{"query":"\xff"}',
    b'{"query":"\xed\xa0\x80"}', b"a=1&b=2", b"<a/>", b'{"query":"a","query":"b"}', b'{"query":"a","QUERY":"b"}',
    b"[" * 100_000, b'{"a":' * 20_000, b'{"jobs":[' + b"1," * 20_000 + b"1]}", b'{"jobs":[' + b"{}," * 300 + b"{}]}",
    b"{" + b" " * 1_048_576 + b"}", b'{"query":"' + b"x" * 1_048_560 + b'"}',
]  # fmt: skip

# Parts of a path, as they are sent.
PARTS = [
    "%2F", "a%2Fb", "%00", "a%00", "..", "%2e%2e", ".", "...", "a.b.c", "research.", ".a", "research.%00",
    "research.a%0A", "research.a%0D%0A", "%ff", "%ED%A0%80", "%C3%A9.%C3%A9", "%F0%9F%8C%8A", "%", "%%", "%zz", "%2",
    "a b", "a%20b", "*", "research." + "a" * 64, "research." + "a" * 65, "a" * 3000, "research.a;b", "research.a,b",
    "{job_id}", "bulk", "$", "RESEARCH.a", "research%2Ea", "%72esearch.a", "-", "_", "0", "null",
    "tr:{research}:job:a", "a'b", 'a"b', "a\\b", "\xe9", "\x7f", "a#b", "a?b", "research.x/cancel", "%252F",
]  # fmt: skip

# Values in a query.
TEXTS = [
    "", "0", "-1", "1", "999", "1000", "1001", "1000000", "1e3", "1.0", "+1", " 1", "\u0661", "NaN", "9" * 30, "null",
    "current", "waiting", "WAITING", "running", "active", "urgent.0-0", "urgent.",
    "normal." + "9" * 23 + "-1", "low.18446744073709551615-18446744073709551615", "urgent", ".", "1.a", "nan.a",
    "inf.a", "1e400.a", "0-0.a", "1-1", "9" * 25 + "-1", "1-" + "9" * 25, "1-1.a", "-", "(1-1", "+", "a" * 201,
    "a" * 3000, "\x00", "a\x00b", "\ud800", "\U0001f30a", "%", "%zz", "a,b,,c", ",", "research,research",
    "research.a", "nowhere.a", "\r\n", "1-1700000000000000", "0", "*", "[a]", "'", '"', "\\", "a;b", "$(id)",
]  # fmt: skip

# Pieces of a query, as they are sent.
QUERIES = [
    "a", "a=b", "limit=1&limit=x", "=", "&&", "%=%", "after", "ticket=x", "ticket=", "a[]=1", "\xff", "a b",
    "name=%ED%A0%80", "name=%00", "after=%ff", "state=%00", "state=waiting&state=failed", "kind=%F0%9F", "+",
]  # fmt: skip

# Content types.
TYPES = [
    "application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/json;", "text/plain", "",
    "application/problem+json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json",
    "\xff", "application/json, text/plain", " application/json ",
]  # fmt: skip
METHODS = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "POSt", "CONNECT", "PRI", "M-SEARCH",
]  # fmt: skip

# Headers, and what may stand in any of them.
NAMES = [
    "Last-Event-ID", "Idempotency-Key", "If-None-Match", "Accept", "Accept-Encoding", "Origin", "Sec-Fetch-Site",
    "Cookie", "Authorization", "Range", "X-Forwarded-For", "Upgrade", "Expect", "TE", "X", "Content-Encoding",
    "Host ", "Connection",
]  # fmt: skip
VALUES = [
    "", "a", "0", "null", "text/html", "*/*", "gzip;q=0", '"', '"a", W/"b"', "bytes=0-1", "a" * 3000, "\xff\xfe",
    "a\tb", "tailrace_session=x", "tailrace_session", 'tailrace_session="\\', "a=b; c", "Bearer ", "Bearer x",
    "Basic eDp5", "x", "same-origin", "cross-site", "https://evil.example", "null", "1-1700000000000000", "99999-1",
    "100-continue", "{}", "websocket", "h2c",
    "Upgrade", "Upgrade, HTTP2-Settings", "\x00", "a\x00b", "\x01", "\x7f", "a" * 255, "a" * 256, "é",
]  # fmt: skip
