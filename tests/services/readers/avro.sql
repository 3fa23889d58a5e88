-- The payloads of the schemas in tests/fixtures/schemas/avro, and what PostgreSQL says that they are.

INSERT INTO says.event (event_type, payload) VALUES
('WalletToppedUp', '{"amount": 5}'),
('WalletToppedUp', '{"amount": 77.10, "currency": "USD", "toppedUpAt": "2026-06-12T03:22:47.000123Z", "labels": ["gift"], "note": null}'),
('ParcelBooked', '{"modelId": "p-1", "modelName": "Parcel",
    "sender": {"name": "Ana \"Ñ\" Ø\\", "phone": "+1", "place": {"city": "Malmö", "geo": {"lat": 55.6050, "lon": -13.00382e0}}},
    "receiver": {"name": "", "phone": null, "place": {"city": "東京", "geo": null}},
    "legs": [
        {"port": "west", "day": "2026-06-12", "fee": 12.30, "hazards": ["FRAGILE", "NONE"]},
        {"port": "east", "day": "1969-12-31", "fee": "-9999999999.99", "hazards": []},
        {"port": "", "day": 20000, "fee": 0}],
    "labels": {"": "empty key", "b": "", "aa": "two", "é": "\u20ac\t\u0001", "long key with . and [0]": "x"},
    "stops": {"later": [{"city": "Oslo"}, null, {"city": "", "geo": {"lat": 0, "lon": 1e-7}}], "never": []},
    "service": "OVERNIGHT", "carrier": {"axles": -3, "plate": "ÄÖ-1"}, "note": "line\nline 😀"}'),
('MeterRead', '{"modelId": "m-1", "on": true, "small": 2147483647, "big": 9223372036854775807, "ratio": 0.1, "exact": 0.1,
    "raw": "AAEC/w==", "digest": "3q2+7w==", "amount": 1234567890123456.7890123456, "fee": 77.10, "day": "2024-02-29",
    "at": "2026-06-12T03:22:47.123456Z", "atExact": "2026-06-12T03:22:47.123456Z",
    "meter": "3F0A9B62-7C1D-4E58-A6B4-0D9E8F7C6B5A", "rank": 1, "reading": 17, "origin": "here"}'),
('ParcelBooked', '{"modelId": "p-2", "modelName": "Parcel",
    "sender": {"name": "n", "place": {"city": "c"}}, "receiver": {"name": "n", "place": {"city": "c"}},
    "legs": [], "labels": {}, "service": "ECONOMY"}'),
('MeterRead', '{"modelId": "", "on": false, "small": -2147483648, "big": -9223372036854775808, "ratio": -3.4028234e38,
    "exact": 1.7976931348623157e308, "raw": "", "digest": "AAAAAA==", "amount": "-9999999999999999999999999999.9999999999",
    "fee": "-0.01", "day": "1600-02-29", "at": "1969-12-31T23:59:59.999999Z", "atExact": "1969-12-31T23:59:59.999999Z",
    "meter": "00000000-0000-0000-0000-000000000000", "rank": null, "reading": "text", "origin": ""}'),
('ParcelBooked', '{"modelId": "p-3", "modelName": "Parcel",
    "sender": {"name": "n", "place": {"city": "c"}}, "receiver": {"name": "n", "place": {"city": "c"}},
    "legs": [{"port": "p", "day": "0001-01-01", "fee": 1e9}], "labels": {"k": "v"}, "service": "EXPRESS",
    "carrier": {"imo": -9007199254740993}, "note": ""}'),
('MeterRead', '{"modelId": "m-3", "on": true, "small": 0, "big": 9007199254740993, "ratio": 16777217, "exact": 5e-324,
    "raw": "YQ==", "digest": "/////w==", "amount": 0, "fee": "9999999999999999.99", "day": -719162, "at": -1, "atExact": -62135596800000000,
    "meter": "ffffffff-ffff-4fff-bfff-ffffffffffff", "rank": -1, "reading": false}'),
('MeterRead', '{"modelId": "m-4", "on": true, "small": -1, "big": -1, "ratio": 1.4e-45, "exact": -12345678901234567890,
    "raw": "TG9uZ2VyIHRoYW4gYSBmZXcgYnl0ZXMsIMOpIOKCrA==", "digest": "AQIDBA==", "amount": "1.5E+3", "fee": "-9999999999999999.99",
    "day": "9999-12-31", "at": "0001-01-01T00:00:00Z", "atExact": "9999-12-31T23:59:59.999999+00:00",
    "meter": "9d2e4c70-51b8-4f3a-8c6d-e7f1a2b3c4d5", "reading": -9223372036854775808}');

CREATE FUNCTION says.place(place jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT CASE WHEN jsonb_typeof(place) = 'object' THEN jsonb_build_object('city', place->'city', 'geo',
        CASE WHEN place->>'geo' IS NOT NULL THEN jsonb_build_object(
            'lat', says.double(place#>>'{geo,lat}'), 'lon', says.double(place#>>'{geo,lon}')) END) END $$;

CREATE FUNCTION says.party(party jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('name', party->'name', 'phone', party->'phone', 'place', says.place(party->'place')) $$;

CREATE FUNCTION says.ParcelBooked(p jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object(
        'modelId', p->'modelId', 'modelName', p->'modelName', 'sender', says.party(p->'sender'), 'receiver', says.party(p->'receiver'),
        'legs', (SELECT coalesce(jsonb_agg(jsonb_build_object('port', leg->'port', 'day', says.days(leg->'day'),
                'fee', says.decimal(leg->>'fee', 2), 'hazards', coalesce(leg->'hazards', '[]')) ORDER BY n), '[]')
            FROM jsonb_array_elements(p->'legs') WITH ORDINALITY AS legs(leg, n)),
        'labels', p->'labels',
        'stops', (SELECT coalesce(jsonb_object_agg(name, (SELECT coalesce(jsonb_agg(says.place(place) ORDER BY n), '[]')
                FROM jsonb_array_elements(places) WITH ORDINALITY AS stop(place, n))), '{}')
            FROM jsonb_each(p->'stops') AS stops(name, places)),
        'service', p->'service', 'carrier', p->'carrier', 'note', p->'note') $$;

CREATE FUNCTION says.MeterRead(p jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object(
        'modelId', p->'modelId', 'on', p->'on', 'small', p->'small', 'big', p->'big',
        'ratio', says.single(p->>'ratio'), 'exact', says.double(p->>'exact'), 'raw', says.bytes(p->>'raw'),
        'digest', says.bytes(p->>'digest'), 'amount', says.decimal(p->>'amount', 10), 'fee', says.decimal(p->>'fee', 2),
        'day', says.days(p->'day'), 'at', says.instant(p->'at', 1000), 'atExact', says.instant(p->'atExact', 1),
        'meter', (p->>'meter')::uuid, 'rank', p->'rank', 'reading', p->'reading',
        'origin', coalesce(p->>'origin', 'unbekannt é')) $$;

CREATE FUNCTION says.WalletToppedUp(p jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object(
        'amount', says.decimal(p->>'amount', 2), 'currency', coalesce(p->>'currency', 'EUR'),
        'toppedUpAt', says.instant(p->'toppedUpAt', 1), 'labels', coalesce(p->'labels', '[]'), 'note', p->'note') $$;

CREATE FUNCTION says.payload(event_type text, p jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT CASE event_type WHEN 'WalletToppedUp' THEN says.WalletToppedUp(p) WHEN 'ParcelBooked' THEN says.ParcelBooked(p) WHEN 'MeterRead' THEN says.MeterRead(p) END $$;
