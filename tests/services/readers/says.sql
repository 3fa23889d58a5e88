-- says: what PostgreSQL itself makes of a payload's members, in the words of tests/readers/lines.py.
-- Each payload says what it is by its own schema, in avro.sql and protobuf.sql.

CREATE SCHEMA says;

CREATE FUNCTION says.bytes(base64 text) RETURNS jsonb STRICT LANGUAGE sql AS $$
    SELECT jsonb_build_object('$hex', encode(decode(
        rpad(translate(base64, '-_', '+/'), (length(base64) + 3) / 4 * 4, '='), 'base64'), 'hex')) $$;

CREATE FUNCTION says.double(number text) RETURNS jsonb STRICT LANGUAGE sql AS $$
    SELECT jsonb_build_object('$float8', encode(float8send(number::float8), 'hex')) $$;

CREATE FUNCTION says.single(number text) RETURNS jsonb STRICT LANGUAGE sql AS $$
    SELECT jsonb_build_object('$float8', encode(float8send(number::float4::float8), 'hex')) $$;

CREATE FUNCTION says.decimal(number text, scale int) RETURNS text STRICT LANGUAGE sql AS $$
    SELECT round(number::numeric, scale)::text $$;

CREATE FUNCTION says.whole(number text) RETURNS numeric STRICT LANGUAGE sql AS $$
    SELECT trunc(number::numeric) $$;

CREATE FUNCTION says.days(day jsonb) RETURNS bigint STRICT LANGUAGE sql AS $$
    SELECT CASE jsonb_typeof(day) WHEN 'number' THEN day::bigint ELSE (day #>> '{}')::date - date '1970-01-01' END $$;

CREATE FUNCTION says.micros(at timestamptz) RETURNS bigint STRICT LANGUAGE sql AS $$
    SELECT (extract(epoch FROM at) * 1000000)::bigint $$;

-- A number is in the unit already; `unit` is how many microseconds that is.
CREATE FUNCTION says.instant(at jsonb, unit int) RETURNS bigint STRICT LANGUAGE sql AS $$
    SELECT CASE jsonb_typeof(at) WHEN 'number' THEN at::bigint
        ELSE floor(says.micros((at #>> '{}')::timestamptz)::numeric / unit)::bigint END $$;

-- The envelopes around the payloads: each line is one, taken in turn.
CREATE TABLE says.envelope (
    n int GENERATED ALWAYS AS IDENTITY, action_name text, action_params jsonb, started_date timestamp,
    completion_date timestamp, model_id text, model_type text, event_date timestamp, delivered boolean);
INSERT INTO says.envelope (action_name, action_params, started_date, completion_date, model_id, model_type, event_date,
    delivered) VALUES
    ('BookAction', '{}', '2026-06-12 03:22:47.000123', '2026-06-12 03:22:47.5', 'p-1', 'Parcel', '2026-06-12 03:22:47.5', false),
    (E'Book "it" \\ with\ttab,\nline, é, €, 😀', '{"b": 77.10, "a": [1e3, -0, 1E-2, {"x": null}], "text": "\u00e9 \"q\" \u0001\n😀"}',
        '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59', 'modèle €', 'Parcel', '1901-02-03 04:05:06.000007', true),
    ('', '[]', '1970-01-01', '1970-01-01 00:00:00.000001', NULL, NULL, '1970-01-01', false),
    ('B', '"just text"', '9999-12-31 23:59:59.999999', '2000-02-29 12:00:00', '', '', '0001-01-01', true),
    ('B', '{"big": 12345678901234567890.123456789}', '0044-03-15 12:00:00 BC', '12000-01-01', NULL, 'Parcel',
        '2026-06-12 03:22:47.999', false);

-- The events to write, in this order.
CREATE TABLE says.event (n int GENERATED ALWAYS AS IDENTITY, event_type text, payload jsonb);
