//! The rights that a pipeline needs of Kafka's authoriser, as the commands that give them: these and no others.

use headwater_core::rights::Rights;
use headwater_core::route::Topics;

use super::Settings;
use super::tools::Tools;

/// For an administrator, before Headwater ever connects. `events` are the topics of the routes. Writing and reading include
/// Describe (Kafka's manual, "Authorization Primitives"), which is therefore not asked for.
pub fn rights(settings: &Settings, events: &[Topics], positions: Option<&str>) -> Rights {
    let tools = Tools::of(settings);
    let writing: &[&str] = if settings.create_topics {
        &["Write", "Create"]
    } else {
        &["Write"]
    };
    let events = events.iter().map(|topics| match topics {
        Topics::Only(topic) => format!("--topic '{topic}'"),
        Topics::Beginning(text) if text.is_empty() => "--topic '*'".to_owned(),
        Topics::Beginning(text) => format!("--resource-pattern-type prefixed --topic '{text}'"),
    });
    let mut grants: Vec<String> = events.map(|it| grant(&tools, writing, &it)).collect();
    if let Some(topic) = positions {
        // `init` makes it; a run looks whether it is compacted.
        let remembering = ["Read", "Write", "Create", "DescribeConfigs"];
        grants.push(grant(&tools, &remembering, &format!("--topic '{topic}'")));
    }
    Rights {
        whose: format!("{} of Kafka at {}", tools.principal(), settings.brokers),
        grants,
    }
}

fn grant(tools: &Tools, operations: &[&str], resource: &str) -> String {
    tools.grant_on(&operations.join(" --operation "), resource)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn settings(create_topics: bool) -> Settings {
        Settings {
            brokers: "b:1".into(),
            client_id: "headwater-shop".into(),
            compression: "none".into(),
            linger: Duration::ZERO,
            max_messages: 1,
            max_bytes: 1,
            create_topics,
            topics: Vec::new(),
            passing: super::super::Passing::default(),
            tls: None,
            sasl: None,
            properties: vec![("sasl.username".into(), "shop".into())],
        }
    }

    fn commands(create_topics: bool, events: Topics, positions: Option<&str>) -> Vec<String> {
        let rights = rights(&settings(create_topics), &[events], positions);
        assert_eq!(rights.whose, "User:shop of Kafka at b:1");
        let begins = "kafka-acls.sh --bootstrap-server b:1 --add --allow-principal 'User:shop' ";
        let commands = rights.grants.iter();
        let commands = commands.map(|command| command.strip_prefix(begins).expect(command));
        commands.map(str::to_owned).collect()
    }

    #[test]
    fn the_topics_of_the_routes_are_written_and_the_positions_topic_is_read_too() {
        assert_eq!(
            commands(true, Topics::Beginning("ekbatan.".into()), Some("p")),
            [
                "--operation Write --operation Create --resource-pattern-type prefixed --topic 'ekbatan.'",
                "--operation Read --operation Write --operation Create --operation DescribeConfigs --topic 'p'",
            ]
        );
    }

    #[test]
    fn topics_that_are_not_to_be_created_need_no_right_to_that() {
        assert_eq!(
            commands(false, Topics::Only("events".into()), None),
            ["--operation Write --topic 'events'"]
        );
    }

    #[test]
    fn a_topic_that_only_the_events_name_can_be_any() {
        assert_eq!(
            commands(false, Topics::Beginning(String::new()), None),
            ["--operation Write --topic '*'"]
        );
    }
}
