-- The payloads of the schemas in tests/fixtures/schemas/proto, and what PostgreSQL says that they are.

INSERT INTO says.event (event_type, payload) VALUES
('WalletToppedUp', '{"amount": 5}'),
('WalletToppedUp', '{"amount": 77.10, "currency": "USD", "toppedUpAt": "2026-06-12T03:22:47.000123Z", "labels": ["gift"], "note": null}'),
('ParcelBooked', '{"modelId": "p-1", "model_name": "Parcel",
    "sender": {"name": "Ana \"Ñ\" Ø\\", "phone": "+1", "place": {"city": "Malmö", "geo": {"lat": 55.6050, "lon": -13.00382e0}}},
    "receiver": {"name": "", "phone": "", "place": {}},
    "legs": [
        {"port": "west", "departs": "2026-06-12T03:22:47.123456Z", "services": ["EXPRESS", "ECONOMY", 2]},
        {"port": "", "departs": "1969-12-31T23:59:59.999999Z", "services": []},
        {"departs": "1970-01-01T02:00:00+02:00"}, {}],
    "labels": {"": "empty key", "b": "", "aa": "two", "é": "\u20ac\t\u0001"},
    "stops": {"-1": {"port": "x"}, "0": {}, "2147483647": {"departs": "0001-01-01T00:00:00Z"}},
    "votes": {"true": 9223372036854775807, "false": "-9223372036854775808"},
    "service": "OVERNIGHT", "truck": {"axles": -3, "plate": "ÄÖ-1"}, "price": 77.10, "note": "line\nline 😀",
    "bookedAt": "9999-12-31T23:59:59.999999Z", "expected": "-1.5s", "insured": "-5", "fragile": false,
    "extra": {"a": null, "bb": [1.5, "x", true, {}], "ccc": {"d": -1e300}}}'),
('MeterRead', '{"modelId": "m-1", "on": true, "small": 2147483647, "big": 9223372036854775807, "uSmall": 4294967295,
    "uBig": 18446744073709551615, "sSmall": 2147483647, "sBig": "9223372036854775807", "fSmall": 4294967295,
    "fBig": "18446744073709551615", "sfSmall": 2147483647, "sfBig": 9223372036854775807, "ratio": 0.1, "exact": 0.1,
    "raw": "AAEC/w==", "rank": 0, "readings": [1, -1, "9007199254740993", 0], "loose": [5, 1e3, -2147483648],
    "words": ["", "é", "😀"], "samples": [0, -2.5, "NaN", "-Infinity"]}'),
('SealBroken', '{"seal": "Q-88", "cause": "FALL", "floor": -1, "marks": [0, -1, 2147483647], "witness": {"name": "", "sober": false}}'),
('ParcelBooked', '{"sender": null, "legs": null, "labels": {}, "note": null, "ship": {"imo": -9007199254740993}, "price": ""}'),
('MeterRead', '{}'),
('SealBroken', '{"seal": ""}'),
('ParcelBooked', '{"modelId": "", "sender": {}, "service": 1, "pigeon": "", "price": true, "note": "",
    "booked_at": "1970-01-01T00:00:00Z", "expected": "0s", "insured": 0, "fragile": true, "extra": {}}'),
('MeterRead', '{"modelId": "é", "on": "true", "small": -2147483648, "big": "-9223372036854775808", "uSmall": 1, "u_big": 1,
    "sSmall": -2147483648, "sBig": -9223372036854775808, "fSmall": 1, "fBig": 1, "sfSmall": -2147483648,
    "sfBig": -9223372036854775808, "ratio": -3.4028234e38, "exact": 1.7976931348623157e308, "raw": "_-8", "rank": -7,
    "readings": [], "samples": [5e-324]}'),
('SealBroken', '{"seal": "ß", "cause": 2, "witness": {"name": "w"}}');

CREATE FUNCTION says.value(j jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT CASE jsonb_typeof(j)
        WHEN 'null' THEN '{"null_value": "NULL_VALUE"}'
        WHEN 'number' THEN jsonb_build_object('number_value', says.double(j::text))
        WHEN 'string' THEN jsonb_build_object('string_value', j)
        WHEN 'boolean' THEN jsonb_build_object('bool_value', j)
        WHEN 'array' THEN jsonb_build_object('list_value', jsonb_build_object('values',
            (SELECT coalesce(jsonb_agg(says.value(e) ORDER BY n), '[]') FROM jsonb_array_elements(j) WITH ORDINALITY AS l(e, n))))
        WHEN 'object' THEN jsonb_build_object('struct_value', jsonb_build_object('fields',
            (SELECT coalesce(jsonb_object_agg(name, says.value(v)), '{}') FROM jsonb_each(j) AS m(name, v))))
    END $$;

CREATE FUNCTION says.geo(geo jsonb) RETURNS jsonb STRICT LANGUAGE sql AS $$
    SELECT jsonb_build_object('lat', says.double(geo->>'lat'), 'lon', says.double(geo->>'lon')) $$;

CREATE FUNCTION says.party(party jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT CASE WHEN jsonb_typeof(party) = 'object' THEN jsonb_build_object(
        'name', coalesce(party->>'name', ''), 'phone', party->'phone',
        'place', CASE WHEN party ? 'place' THEN jsonb_build_object(
            'city', coalesce(party#>>'{place,city}', ''), 'geo', says.geo(party#>'{place,geo}')) END) END $$;

CREATE FUNCTION says.service(service jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT CASE jsonb_typeof(service) WHEN 'number' THEN (ARRAY['ECONOMY', 'EXPRESS', 'OVERNIGHT'])[service::int + 1]
        ELSE coalesce(service #>> '{}', 'ECONOMY') END $$;

CREATE FUNCTION says.leg(leg jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('port', coalesce(leg->>'port', ''), 'departs', says.instant(leg->'departs', 1),
        'services', (SELECT coalesce(jsonb_agg(says.service(s) ORDER BY n), '[]')
            FROM jsonb_array_elements(leg->'services') WITH ORDINALITY AS l(s, n))) $$;

CREATE FUNCTION says.duration(duration text) RETURNS jsonb STRICT LANGUAGE sql AS $$
    SELECT jsonb_build_object('seconds', trunc(s), 'nanos', trunc((s - trunc(s)) * 1000000000))
    FROM (SELECT rtrim(duration, 's')::numeric) AS d(s) $$;

-- A list that is null is an empty one.
CREATE FUNCTION says.list(j jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT CASE jsonb_typeof(j) WHEN 'array' THEN j ELSE '[]' END $$;

CREATE FUNCTION says.ParcelBooked(p jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object(
        'model_id', coalesce(p->>'modelId', ''), 'model_name', coalesce(p->>'model_name', ''),
        'sender', says.party(p->'sender'), 'receiver', says.party(p->'receiver'),
        'legs', (SELECT coalesce(jsonb_agg(says.leg(leg) ORDER BY n), '[]')
            FROM jsonb_array_elements(says.list(p->'legs')) WITH ORDINALITY AS legs(leg, n)),
        'labels', coalesce(p->'labels', '{}'),
        'stops', (SELECT coalesce(jsonb_object_agg(name, says.leg(leg)), '{}') FROM jsonb_each(p->'stops') AS stops(name, leg)),
        'votes', (SELECT coalesce(jsonb_object_agg(name, says.whole(vote)), '{}') FROM jsonb_each_text(p->'votes') AS votes(name, vote)),
        'service', says.service(p->'service'), 'price', coalesce(p->>'price', ''), 'note', p->'note',
        'booked_at', says.instant(coalesce(p->'bookedAt', p->'booked_at'), 1), 'expected', says.duration(p->>'expected'),
        'insured', CASE WHEN p ? 'insured' THEN jsonb_build_object('value', says.whole(p->>'insured')) END,
        'fragile', CASE WHEN p ? 'fragile' THEN jsonb_build_object('value', p->'fragile') END,
        'extra', CASE WHEN p ? 'extra' THEN says.value(p->'extra')->'struct_value' END)
        || CASE WHEN p ? 'truck' THEN jsonb_build_object('truck', p->'truck') ELSE '{}' END
        || CASE WHEN p ? 'ship' THEN jsonb_build_object('ship', p->'ship') ELSE '{}' END
        || CASE WHEN p ? 'pigeon' THEN jsonb_build_object('pigeon', p->'pigeon') ELSE '{}' END $$;

CREATE FUNCTION says.MeterRead(p jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object(
        'model_id', coalesce(p->>'modelId', ''), 'on', coalesce((p->>'on')::boolean, false),
        'small', coalesce(says.whole(p->>'small'), 0), 'big', coalesce(says.whole(p->>'big'), 0),
        'u_small', coalesce(says.whole(p->>'uSmall'), 0), 'u_big', coalesce(says.whole(p->>'uBig'), says.whole(p->>'u_big'), 0),
        's_small', coalesce(says.whole(p->>'sSmall'), 0), 's_big', coalesce(says.whole(p->>'sBig'), 0),
        'f_small', coalesce(says.whole(p->>'fSmall'), 0), 'f_big', coalesce(says.whole(p->>'fBig'), 0),
        'sf_small', coalesce(says.whole(p->>'sfSmall'), 0), 'sf_big', coalesce(says.whole(p->>'sfBig'), 0),
        'ratio', says.single(coalesce(p->>'ratio', '0')), 'exact', says.double(coalesce(p->>'exact', '0')),
        'raw', says.bytes(coalesce(p->>'raw', '')), 'rank', p->'rank',
        'readings', (SELECT coalesce(jsonb_agg(says.whole(e) ORDER BY n), '[]')
            FROM jsonb_array_elements_text(p->'readings') WITH ORDINALITY AS l(e, n)),
        'loose', (SELECT coalesce(jsonb_agg(says.whole(e) ORDER BY n), '[]')
            FROM jsonb_array_elements_text(p->'loose') WITH ORDINALITY AS l(e, n)),
        'words', coalesce(p->'words', '[]'),
        'samples', (SELECT coalesce(jsonb_agg(says.double(e) ORDER BY n), '[]')
            FROM jsonb_array_elements_text(p->'samples') WITH ORDINALITY AS l(e, n))) $$;

CREATE FUNCTION says.SealBroken(p jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('seal', p->'seal',
        'cause', CASE jsonb_typeof(p->'cause') WHEN 'number' THEN (ARRAY['FALL', 'THEFT'])[(p->'cause')::int] ELSE p->>'cause' END,
        'floor', p->'floor', 'marks', coalesce(p->'marks', '[]'),
        'witness', CASE WHEN p ? 'witness'
            THEN jsonb_build_object('name', p#>'{witness,name}', 'sober', p#>'{witness,sober}') END) $$;

CREATE FUNCTION says.WalletToppedUp(p jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object(
        'amount', coalesce(p->>'amount', ''), 'currency', coalesce(p->>'currency', 'EUR'),
        'topped_up_at', says.instant(p->'toppedUpAt', 1), 'labels', coalesce(p->'labels', '[]'), 'note', p->'note') $$;

CREATE FUNCTION says.payload(event_type text, p jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT CASE event_type WHEN 'WalletToppedUp' THEN says.WalletToppedUp(p) WHEN 'ParcelBooked' THEN says.ParcelBooked(p) WHEN 'MeterRead' THEN says.MeterRead(p)
        WHEN 'SealBroken' THEN says.SealBroken(p) END $$;
