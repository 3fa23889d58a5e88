//! Routes, presets and filters.

use super::*;
use crate::config::KeyFormat;

fn routes(end: &str) -> Vec<(String, String, KeyFormat)> {
    let config = good(&extended("", end), &[]);
    let routes = config.routes().iter();
    routes
        .map(|it| {
            (
                it.topic.value().clone(),
                it.key.value().clone(),
                it.key_format,
            )
        })
        .collect()
}

fn route(topic: &str, key: &str) -> (String, String, KeyFormat) {
    (topic.into(), key.into(), KeyFormat::Text)
}

const KEY: &str = "{model_id|action_id}";

#[test]
fn there_can_be_several_routes_each_with_its_own_keys() {
    let end = "[[route]]\ntopic = 'a'\n[[route]]\ntopic = 'b'\nkey = ''\n[[route]]\n";
    assert_eq!(
        routes(end),
        [
            route("a", KEY),
            route("b", ""),
            route("ekbatan.{namespace}", KEY)
        ]
    );
}

#[test]
fn a_preset_is_its_routes_and_keys_beside_it_replace_theirs() {
    assert_eq!(routes("[[route]]\npreset = 'ekbatan'\n"), routes(""));
    assert_eq!(
        routes("[[route]]\npreset = 'ekbatan-routed'\nkey = '{id}'\n[[route]]\ntopic = 'x'\n"),
        [
            route("ekbatan.{namespace}", "{id}"),
            route("ekbatan.{namespace}.model.{model_type}", "{id}"),
            route("ekbatan.{namespace}.event.{event_type}", "{id}"),
            route("x", KEY),
        ]
    );
    let debezium =
        |more: &str| routes(&format!("[[route]]\npreset = 'debezium'\n{more}")).remove(0);
    let (topic, _, format) = debezium("");
    assert_eq!(
        (topic.as_str(), format),
        ("shop.eventlog.events", KeyFormat::Json)
    );
    let (topic, _, format) = debezium("topic_prefix = 'db'\nkey_format = 'debezium-string'\n");
    assert_eq!(
        (topic.as_str(), format),
        ("db.eventlog.events", KeyFormat::Struct)
    );
    assert_eq!(debezium("topic = 't'\nkey = 'k'\n"), route("t", "k"));
}

#[test]
fn conditions_and_headers_beside_a_preset_are_added_to_its_own() {
    let end = "[[route]]\npreset = 'ekbatan-routed'\nwhere = { namespace = 'shop', payload.tier = ['a*', 'b'] }\n";
    let config = good(&extended("", end), &[]);
    let told = |index: usize| -> Vec<String> {
        let all = config.routes()[index].conditions.iter().flatten();
        all.map(|(column, texts)| format!("{}={}", column.value(), texts.join(",")))
            .collect()
    };
    assert_eq!(told(0), ["namespace=shop", "payload.tier=a*,b"]);
    assert_eq!(
        told(1),
        ["model_type=*", "namespace=shop", "payload.tier=a*,b"]
    );

    let end = "[[route]]\npreset = 'debezium'\nheaders = { '__debezium.context.taskId' = '7', x = '{id}' }\n";
    let config = good(&extended("", end), &[]);
    let headers = config.routes()[0].headers.iter();
    let headers: Vec<String> = headers
        .map(|(name, value)| format!("{name}={}", value.value()))
        .collect();
    assert_eq!(
        headers,
        [
            "__debezium.context.connectorLogicalName=shop",
            "__debezium.context.connectorName=postgresql",
            "__debezium.context.taskId=7",
            "x={id}",
        ]
    );
}

#[test]
fn routes_that_cannot_be_followed_are_refused() {
    assert_problems(&[
        (
            &extended("", "[[route]]\npreset = 'ekbatan-routed'\ntopic = 't'\n"),
            "conf/hw.toml:13: route.topic: contradicts route.preset = \"ekbatan-routed\", which has several topics; remove one of the two",
        ),
        (
            &extended("", "[[route]]\ntopic_prefix = 'x'\n"),
            "conf/hw.toml:12: route.topic_prefix: says nothing beside the other settings; remove it",
        ),
        (
            &extended("", "[[route]]\nwhere = { a = [] }\n"),
            "conf/hw.toml:12: route.where.a: is empty, so nothing could match; texts are wanted, or * at the end of one",
        ),
        (
            &extended("", "[[route]]\nwhere = { a = 1 }\n"),
            "conf/hw.toml:12: route.where.a: has the type integer; a list of strings is wanted",
        ),
        (
            &extended("", "[[route]]\nwhere = 'x'\n"),
            "conf/hw.toml:12: route.where: has the type string; a table of columns and texts is wanted, such as { model_type = [\"Wallet\"] }",
        ),
        (
            &extended("", "[filter]\nskip = [{}]\n"),
            "conf/hw.toml:12: filter.skip: has an empty condition, which would hold for every event; columns are wanted",
        ),
        (
            &extended("", "[filter]\nskip = [{ event_type = '*Internal' }]\n"),
            "conf/hw.toml:12: filter.skip: has a * before its end, where it would be a plain letter; only texts that begin alike can be asked for",
        ),
        (
            &extended("", "[filter]\nonly = []\n"),
            "conf/hw.toml:12: filter.only: has no condition, so no event could be published; conditions are wanted, or remove it",
        ),
        (
            &extended("", "[failure]\ntopic = 'a'\n[[route]]\ntopic = 'a'\n"),
            "conf/hw.toml:12: failure.topic: is the topic of a route, whose readers do not expect letters, or of the positions; a topic of its own is wanted",
        ),
        (
            &extended("", "[failure]\ntopic = 'headwater-positions'\n"),
            "conf/hw.toml:12: failure.topic: is the topic of a route, whose readers do not expect letters, or of the positions; a topic of its own is wanted",
        ),
        (
            &extended(
                "",
                "[failure]\ntopic = 'x.y'\n[sink.topics.'x.*']\nsettings = { 'cleanup.policy' = 'compact' }\n",
            ),
            "conf/hw.toml:12: failure.topic: would be compacted, by [sink.topics], so that letters of one key take each other away; give it an entry of its own there, with cleanup.policy = \"delete\"",
        ),
        (
            &extended("", "[sink.topics]\n'a b' = { partitions = 3 }\n"),
            "conf/hw.toml:12: sink.topics.\"a b\": matches no topic; a topic's name is wanted, or the beginning of one and *",
        ),
        (
            &extended(
                "",
                "create_topics = false\n[sink.topics.x]\npartitions = 3\n",
            ),
            "conf/hw.toml:12: sink.topics.\"x\": says nothing beside sink.create_topics = false; remove one of the two",
        ),
    ]);
}

#[test]
fn a_variable_means_the_one_route() {
    let variable = [("HEADWATER__ROUTE__TOPIC", "t")];
    for end in ["", "[[route]]\ntopic = 'x'\n"] {
        let config = good(&extended("", end), &variable);
        assert_eq!(config.routes()[0].topic.value(), "t");
    }
    let two = extended("", "[[route]]\n[[route]]\n");
    let found = try_with(&two, &variable).unwrap_err();
    assert!(found.contains("the file has 2 of [[route]]"), "{found}");
    let found = try_with(&extended("", ""), &[("HEADWATER__ROUTE__WHERE", "x")]).unwrap_err();
    assert!(
        found.contains("route.where: cannot be said by a variable"),
        "{found}"
    );
}

#[test]
fn filters_and_topics_are_read_as_they_are_written() {
    let end = "[sink.topics.'a.*']\npartitions = 12\nsettings = { 'retention.ms' = '5' }\n\
               [filter]\nskip = [{ event_type = 'Audit*' }, { namespace = ['a', 'b'], tenant = 'x' }]\nonly = [{ id = '*' }]\n";
    let config = good(&extended("", end), &[]);
    assert_eq!(
        (config.filter().skip.len(), config.filter().only.len()),
        (2, 1)
    );
    assert_eq!(config.filter().skip[1].len(), 2);
    let SinkKind::Kafka(kafka) = &config.sink().kind else {
        panic!()
    };
    let [rule] = kafka.topics.as_slice() else {
        panic!()
    };
    assert_eq!(
        (rule.pattern.as_str(), rule.partitions, rule.replication),
        ("a.*", Some(12), None)
    );
    assert_eq!(rule.settings, [("retention.ms".to_owned(), "5".to_owned())]);
}
