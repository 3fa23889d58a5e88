use std::collections::HashMap;

use super::*;
use crate::event::{Outbox, Role};
use crate::pattern::Pattern;
use crate::row::Change;

/// Columns that no role has.
const OTHERS: [&str; 5] = ["tenant", "shard", "headers", "traceparent", "document"];

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

/// A row whose model is null, and all that is not a role; `with` says otherwise.
fn row(with: &[(&str, Value)]) -> Row {
    let with: HashMap<&str, &Value> = with.iter().map(|(name, value)| (*name, value)).collect();
    let names = Role::ALL.iter().map(|role| role.name()).chain(OTHERS);
    let columns: Vec<String> = names.map(str::to_owned).collect();
    let cell = |name: &String| match (with.get(name.as_str()), name.as_str()) {
        (Some(value), _) => (*value).clone(),
        (None, "started_date" | "completion_date" | "event_date") => Value::Micros(0),
        (None, "delivered") => Value::Bool(false),
        (None, "namespace") => text("shop"),
        (None, "id") => text("id-1"),
        (None, "action_id") => text("action-1"),
        (None, "payload") => text(r#"{"customer":{"id":7},"n":null}"#),
        (None, "action_params") => text("{}"),
        (None, name) if Role::named(name).is_some_and(|role| !role.may_be_missing()) => text(name),
        _ => Value::Null,
    };
    Row {
        cells: columns.iter().map(cell).collect(),
        table: Arc::new(Table {
            schema: "eventlog".into(),
            name: "events".into(),
            columns,
        }),
        change: Change::Insert,
    }
}

fn routed(mut route: Route, row: &Row) -> Result<Option<Address>, String> {
    let roles = Outbox::ekbatan().bind(&row.table).expect("an outbox");
    route.bind(&row.table, &roles).map_err(|e| e.to_string())?;
    route.address(row).map_err(|failure| failure.to_string())
}

fn route(topic: &str, key: &str) -> Route {
    Route::parse(topic, key).expect("templates")
}

fn template(text: &str) -> Template {
    Template::parse(text).expect("a template")
}

fn address(topic: &str, key: &str, row: &Row) -> Result<(String, Option<String>), String> {
    let route = Route::parse(topic, key).map_err(|e| e.to_string())?;
    let address = routed(route, row)?.expect("taken");
    let key = address
        .key
        .map(|key| String::from_utf8(key.to_vec()).expect("text"));
    Ok((address.topic.to_string(), key))
}

fn model(id: Option<&str>) -> Row {
    row(&[("model_id", id.map_or(Value::Null, text))])
}

#[test]
fn the_default_route_keys_by_model_and_else_by_action() {
    let routed = |model_id| {
        address(
            "ekbatan.{namespace}",
            "{model_id|action_id}",
            &model(model_id),
        )
    };
    assert_eq!(
        routed(Some("w-1")),
        Ok(("ekbatan.shop".into(), Some("w-1".into())))
    );
    assert_eq!(
        routed(None),
        Ok(("ekbatan.shop".into(), Some("action-1".into())))
    );
}

#[test]
fn an_empty_text_is_not_null() {
    assert_eq!(
        address("t", "{model_id|action_id}", &model(Some(""))),
        Ok(("t".into(), Some(String::new())))
    );
}

#[test]
fn a_last_resort_is_written_when_all_are_null() {
    let illegal = address("t.{model_type|\"no}ne\"}", "", &model(None)).expect_err("illegal");
    assert!(illegal.contains("no}ne"), "{illegal}");
    assert_eq!(
        address("t.{model_type|model_id|\"none\"}.x", "", &model(None)),
        Ok(("t.none.x".into(), None))
    );
}

#[test]
fn null_with_nothing_left_fails_the_row_naming_the_column() {
    for (place, says) in [
        (
            "{model_id|model_type}",
            "unroutable: model_id, model_type are all null, and the route needs it",
        ),
        (
            "{tenant}",
            "unroutable: tenant is null, and the route needs it",
        ),
        (
            "{payload.n}",
            "unroutable: payload.n is null, and the route needs it",
        ),
        (
            "{payload.customer.name}",
            "unroutable: payload.customer.name is null, and the route needs it",
        ),
    ] {
        assert_eq!(address("t", place, &model(None)), Err(says.into()));
        assert_eq!(address(place, "", &model(None)), Err(says.into()));
        for with in [
            route("t", "").with_partition(template(place)),
            route("t", "").with_timestamp(template(place)),
        ] {
            assert_eq!(routed(with, &model(None)), Err(says.into()));
        }
    }
}

#[test]
fn dates_booleans_and_numbers_have_a_text() {
    let row = row(&[
        ("shard", Value::Int(-3)),
        ("tenant", Value::Uuid([0x11; 16])),
    ]);
    let (topic, key) =
        address("t{delivered}", "{event_date} {shard} {tenant}", &row).expect("fine");
    let wanted = "1970-01-01T00:00:00.000000Z -3 11111111-1111-1111-1111-111111111111";
    assert_eq!((topic.as_str(), key.as_deref()), ("tfalse", Some(wanted)));
}

#[test]
fn a_yes_is_true_whatever_the_database_has_for_it() {
    for (value, wanted) in [
        (Value::Int(0), "false"),
        (Value::Int(1), "true"),
        (Value::Bool(true), "true"),
    ] {
        let (_, key) = address("t", "{delivered}", &row(&[("delivered", value)])).expect("fine");
        assert_eq!(key.as_deref(), Some(wanted));
    }
}

#[test]
fn a_value_without_a_text_fails_the_row_naming_the_column() {
    for (value, says) in [
        (
            Value::Bytes(vec![0; 3].into()),
            "unroutable: column tenant holds 3 bytes, and only 16 are a uuid: it has no text",
        ),
        (
            Value::Absent,
            "unroutable: column tenant did not come with the row: it has no text",
        ),
        (
            Value::Unreadable("is infinity".into()),
            "unroutable: column tenant is infinity: it has no text",
        ),
    ] {
        assert_eq!(
            address("t", "{tenant|id}", &row(&[("tenant", value)])),
            Err(says.into())
        );
    }
}

#[test]
fn members_of_json_are_found_by_path() {
    let row = row(&[
        ("action_params", text(r#"{"x":[{"y":true}]}"#)),
        ("document", text(r#"{"a":"b"}"#)),
    ]);
    let key =
        "{payload.customer.id}/{action_params.x.0.y}/{document.a}/{payload.no|payload.customer}";
    let (_, key) = address("t", key, &row).expect("fine");
    assert_eq!(key.as_deref(), Some(r#"7/true/b/{"id":7}"#));
}

#[test]
fn a_member_of_what_is_not_json_fails_the_row() {
    let says =
        address("t", "{document.a}", &row(&[("document", text("{'a'}"))])).expect_err("no JSON");
    assert!(
        says.starts_with("bad_payload: column document is not JSON, and document.a"),
        "{says}"
    );
    let says = address("t", "{shard.a}", &row(&[("shard", Value::Int(1))])).expect_err("no JSON");
    assert!(
        says.starts_with("bad_payload: column shard is a number"),
        "{says}"
    );
}

#[test]
fn a_column_that_the_table_lacks_is_told_with_those_that_it_has() {
    let says = address("t", "{tenent}", &model(None)).expect_err("unknown");
    assert!(
        says.starts_with("no column \"tenent\" in table eventlog.events; there are id, "),
        "{says}"
    );
    assert!(
        says.ends_with("delivered, tenant, shard, headers, traceparent, document"),
        "{says}"
    );
}

#[test]
fn a_template_that_cannot_be_understood_says_why() {
    for (template, why) in [
        ("a{", "a { without its }"),
        ("a}b", "a } without its {"),
        ("{}", "a column is wanted"),
        ("{payload.}", "has an empty step"),
        ("{\"x\"}", "needs a column before it"),
        ("{id|\"x\"|namespace}", "must be the last"),
    ] {
        let says = Template::parse(template).expect_err(template).to_string();
        assert!(says.contains(why), "{says}");
    }
}

#[test]
fn the_topics_of_a_route_are_known_before_any_row() {
    assert_eq!(route("events", "").topics(), Topics::Only("events".into()));
    for (template, beginning) in [
        ("ekbatan.{namespace}", "ekbatan."),
        ("a-{namespace}.b", "a-"),
        ("{namespace}.b", ""),
    ] {
        assert_eq!(
            route(template, "").topics(),
            Topics::Beginning(beginning.into())
        );
    }
}

#[test]
fn a_topic_name_that_kafka_would_refuse_fails_the_row() {
    let named =
        |namespace: &str| address("{namespace}", "", &row(&[("namespace", text(namespace))]));
    for namespace in ["a b", "ä", "a/b", "..", &"x".repeat(300)] {
        let says = named(namespace).expect_err("illegal");
        assert!(says.starts_with("unroutable: topic name"), "{says}");
    }
    assert!(named("a.B_c-9").is_ok());
}

#[test]
fn the_topic_of_a_row_is_its_own_even_after_another() {
    let mut route = route("{namespace}", "");
    for namespace in ["a", "a", "b", "a"] {
        let row = row(&[("namespace", text(namespace))]);
        let roles = Outbox::ekbatan().bind(&row.table).expect("an outbox");
        route.bind(&row.table, &roles).expect("bound");
        assert_eq!(&*route.topic(&row).expect("fine"), namespace);
    }
}

#[test]
fn a_route_takes_the_rows_for_which_its_condition_holds() {
    let condition = |places: &[(&str, &[&str])]| {
        let place = |(place, patterns): &(&str, &[&str])| {
            let patterns = patterns.iter().map(|it| Pattern::parse(it)).collect();
            (Place::parse(place).expect("a place"), patterns)
        };
        Condition::new(places.iter().map(place).collect())
    };
    let wallet = row(&[
        ("model_type", text("Wallet")),
        ("payload", text(r#"{"tier":"gold"}"#)),
    ]);
    for (places, taken) in [
        (&[][..], true),
        (&[("model_type", &["Wallet"][..])], true),
        (&[("model_type", &["Order", "Wal*"])], true),
        (&[("model_type", &["*"])], true),
        (&[("model_type", &["wallet", "Walle"])], false),
        (
            &[("model_type", &["Wallet"]), ("payload.tier", &["gold"])],
            true,
        ),
        (
            &[("model_type", &["Wallet"]), ("payload.tier", &["silver"])],
            false,
        ),
        (&[("payload.nothing", &["*"])], false),
        (&[("tenant", &["*"])], false),
        (&[("model_type", &[])], false),
    ] {
        let route = route("t", "").taking(condition(places));
        let found = routed(route, &wallet).expect("fine").is_some();
        assert_eq!(found, taken, "{places:?}");
    }
}

#[test]
fn keys_are_written_as_kafka_connects_converters_write_them() {
    let key = |form| {
        let route = route("db.eventlog.events", "{no such column}").keyed_by_id(form);
        let address = routed(route, &row(&[("id", Value::Uuid([0x22; 16]))])).expect("fine");
        String::from_utf8(address.and_then(|it| it.key).expect("a key").to_vec()).expect("text")
    };
    let id = "22222222-2222-2222-2222-222222222222";
    assert_eq!(key(IdForm::Json), format!(r#"{{"id":"{id}"}}"#));
    assert_eq!(key(IdForm::Struct), format!("Struct{{id={id}}}"));
    assert_eq!(
        key(IdForm::JsonWithSchema { uuid: true }),
        format!(
            r#"{{"schema":{{"type":"struct","fields":[{{"type":"string","optional":false,"name":"io.debezium.data.Uuid","version":1,"field":"id"}}],"optional":false,"name":"db.eventlog.events.Key"}},"payload":{{"id":"{id}"}}}}"#
        )
    );
    assert_eq!(
        key(IdForm::JsonWithSchema { uuid: false }),
        format!(
            r#"{{"schema":{{"type":"struct","fields":[{{"type":"string","optional":false,"field":"id"}}],"optional":false,"name":"db.eventlog.events.Key"}},"payload":{{"id":"{id}"}}}}"#
        )
    );
}

fn headers(route: Route, row: &Row) -> Result<Vec<(String, String)>, String> {
    let address = routed(route, row)?.expect("taken");
    let told = |(name, value): &(Arc<str>, Bytes)| {
        (
            name.to_string(),
            String::from_utf8_lossy(value).into_owned(),
        )
    };
    Ok(address.headers.iter().map(told).collect())
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
        .collect()
}

#[test]
fn headers_are_constants_columns_and_members_and_left_out_where_null() {
    let with = route("t", "")
        .with_header("v", Template::literal("{1}"))
        .with_header("empty", Template::literal(""))
        .with_header("type", template("{event_type}/{payload.customer.id}"))
        .with_header("tenant", template("{tenant}"));
    let wanted = pairs(&[("v", "{1}"), ("empty", ""), ("type", "event_type/7")]);
    assert_eq!(headers(with, &row(&[])), Ok(wanted));
}

#[test]
fn a_column_of_headers_is_spread_out() {
    let spread = |value| {
        let with = route("t", "")
            .with_header("a", Template::literal("ours"))
            .with_headers_from(Place::column("headers"));
        headers(with, &row(&[("headers", value)]))
    };
    let json = r#"{"a":"theirs","b":"x\ny","n":null,"i":1.50,"o":{"k": [1]},"t":true,"i":2}"#;
    assert_eq!(
        spread(text(json)),
        Ok(pairs(&[
            ("a", "ours"),
            ("b", "x\ny"),
            ("i", "2"),
            ("o", r#"{"k": [1]}"#),
            ("t", "true")
        ]))
    );
    assert_eq!(spread(Value::Null), Ok(pairs(&[("a", "ours")])));
    let inner = |value| {
        let place = Place::parse("payload.meta").expect("a place");
        headers(
            route("t", "").with_headers_from(place),
            &row(&[("payload", text(value))]),
        )
    };
    let told = pairs(&[("a", "b")]);
    assert_eq!(inner(r#"{"x": 1, "meta": {"a": "b"}}"#), Ok(told));
    assert_eq!(inner(r#"{"meta": null}"#), Ok(Vec::new()));
    assert_eq!(inner("{}"), Ok(Vec::new()));
    let none = inner(r#"{"meta": 1}"#).expect_err("bad");
    assert!(none.starts_with("bad_payload: column payload.meta is JSON but no object"));
    for (value, says) in [
        (
            text("[1]"),
            "bad_payload: column headers is JSON but no object",
        ),
        (text("{"), "bad_payload: column headers is not JSON"),
        (Value::Int(1), "bad_payload: column headers is a number"),
    ] {
        let told = spread(value).expect_err("bad");
        assert!(told.starts_with(says), "{told}");
    }
}

#[test]
fn a_trace_is_carried_on_unless_the_route_says_otherwise() {
    let traced = row(&[("traceparent", text("00-1"))]);
    assert_eq!(
        headers(route("t", ""), &traced),
        Ok(pairs(&[("traceparent", "00-1")]))
    );
    assert_eq!(headers(route("t", ""), &row(&[])), Ok(Vec::new()), "null");
    let without = route("t", "").with_header("traceparent", Template::literal(""));
    assert_eq!(headers(without, &traced), Ok(Vec::new()));
    let own = route("t", "").with_header("traceparent", template("{id}"));
    assert_eq!(headers(own, &traced), Ok(pairs(&[("traceparent", "id-1")])));
    assert_eq!(
        headers(route("t", "").without_trace(), &traced),
        Ok(Vec::new())
    );
}

#[test]
fn a_partition_is_a_whole_number() {
    let partition = |value| {
        let with = route("t", "").with_partition(template("{shard}"));
        routed(with, &row(&[("shard", value)])).map(|it| it.and_then(|it| it.partition))
    };
    assert_eq!(partition(Value::Int(3)), Ok(Some(3)));
    assert_eq!(partition(text("12")), Ok(Some(12)));
    for value in [Value::Int(-1), text("x"), text(""), Value::Int(1 << 40)] {
        let says = partition(value).expect_err("no partition");
        assert!(says.starts_with("unroutable: partition \""), "{says}");
    }
}

#[test]
fn a_timestamp_is_a_date_or_milliseconds() {
    let timestamp = |value| {
        let with = route("t", "").with_timestamp(template("{shard}"));
        routed(with, &row(&[("shard", value)])).map(|it| it.and_then(|it| it.timestamp))
    };
    assert_eq!(
        timestamp(Value::Micros(1_781_234_567_000_999)),
        Ok(Some(1_781_234_567_000))
    );
    assert_eq!(timestamp(Value::Int(17)), Ok(Some(17)));
    assert_eq!(
        timestamp(text("1970-01-02T00:00:00Z")),
        Ok(Some(86_400_000))
    );
    for value in [Value::Micros(-1), text("today"), Value::Int(-5)] {
        let says = timestamp(value).expect_err("no time");
        assert!(says.starts_with("unroutable: timestamp \""), "{says}");
    }
}

#[test]
fn a_constant_topic_allocates_nothing() {
    let events = (Place::column("event_type"), vec![Pattern::parse("event*")]);
    let shops = (
        Place::column("namespace"),
        vec![Pattern::parse("a"), Pattern::parse("shop")],
    );
    let condition = Condition::new(vec![events, shops]);
    let mut route = route("events", "").taking(condition);
    let row = row(&[]);
    let roles = Outbox::ekbatan().bind(&row.table).expect("an outbox");
    route.bind(&row.table, &roles).expect("bound");
    assert!(
        route.address(&row).expect("fine").is_some(),
        "the first one"
    );
    let used = allocation_counter::measure(|| {
        for _ in 0..100 {
            assert!(route.address(&row).is_ok_and(|it| it.is_some()));
        }
    });
    assert_eq!(used.count_total, 0);
}
