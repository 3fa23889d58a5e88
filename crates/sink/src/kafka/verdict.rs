//! What an error of librdkafka or a broker asks for: one table from its code, and the words for people.
//!
//! Rule: what is not in the table ends the run.

use headwater_core::failure::Kind;
use headwater_core::trouble::Severity;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use super::doubt::refused_together;
use super::tools::Tools;
use crate::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It passes by itself; librdkafka, or we, try again.
    Wait,
    /// The broker will never take this message.
    Refuse(Kind),
    EndRun(Severity),
}

use Severity::{Fatal, Transient};
use Verdict::{EndRun, Refuse, Wait};

/// Troubles that a consumer gets over by itself, and those of the group that it never joins.
pub(super) fn passing(error: KafkaError) -> Result<(), KafkaError> {
    match code(&error) {
        Some(Code::TopicAuthorizationFailed | Code::UnknownTopicOrPartition) => Err(error),
        Some(code) if matches!(connection(code), EndRun(_)) => Err(error),
        _ => Ok(()),
    }
}

fn listed(code: Code) -> Option<Verdict> {
    let verdict = match code {
        // Nobody there, or not the one who decides now.
        Code::BrokerTransportFailure
        | Code::AllBrokersDown
        | Code::Resolve
        | Code::OperationTimedOut
        | Code::TimedOutQueue
        | Code::RequestTimedOut
        | Code::NetworkException
        | Code::BrokerDestroy
        | Code::DestroyBroker
        | Code::NodeUpdate
        | Code::LeaderNotAvailable
        | Code::NotLeaderForPartition
        | Code::BrokerNotAvailable
        | Code::ReplicaNotAvailable
        | Code::NotController
        | Code::CoordinatorLoadInProgress
        | Code::CoordinatorNotAvailable
        | Code::NotCoordinator
        | Code::WaitingForCoordinator
        | Code::NotEnoughReplicas
        | Code::NotEnoughReplicasAfterAppend
        | Code::KafkaStorageError
        | Code::ThrottlingQuotaExceeded
        | Code::FencedLeaderEpoch
        | Code::UnknownLeaderEpoch
        | Code::OffsetNotAvailable
        | Code::WaitCache
        | Code::InProgress
        | Code::Retry
        | Code::QueueFull => Wait,

        // This message, whoever sends it and whenever.
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge => Refuse(Kind::TooLarge),
        Code::InvalidTopic => Refuse(Kind::Unroutable),
        Code::InvalidRecord | Code::InvalidMessage | Code::InvalidMessageSize => {
            Refuse(Kind::Refused)
        }

        // A topic that is gone, a producer that lost its thread: a new one looks again.
        Code::UnknownTopic
        | Code::UnknownTopicOrPartition
        | Code::UnknownPartition
        | Code::MessageTimedOut
        | Code::PurgeQueue
        | Code::PurgeInflight
        | Code::Fatal
        | Code::Inconsistent
        | Code::GaplessGuarantee
        | Code::Fenced
        | Code::ProducerFenced
        | Code::InvalidProducerEpoch
        | Code::UnknownProducerId
        | Code::OutOfOrderSequenceNumber
        | Code::DuplicateSequenceNumber => EndRun(Transient),

        // Only a person can change these. Of the first, another message of its batch is to blame.
        Code::InvalidDifferentRecord
        | Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::SSL
        | Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::PolicyViolation
        | Code::InvalidReplicationFactor
        | Code::InvalidPartitions
        | Code::InvalidConfig
        | Code::InvalidTimestamp
        | Code::UnsupportedCompressionType
        | Code::UnsupportedFeature
        | Code::UnsupportedVersion => EndRun(Fatal),

        _ => return None,
    };
    Some(verdict)
}

/// A message came back: librdkafka has given it up, so there is nothing left to wait for.
pub(super) fn delivery(code: Code) -> Verdict {
    match listed(code) {
        None | Some(Wait) => EndRun(Transient),
        Some(verdict) => verdict,
    }
}

/// A message came back with what may be its own fault: of which kind.
pub(super) fn blamed(code: Code) -> Option<Kind> {
    match delivery(code) {
        Refuse(kind) => Some(kind),
        _ if is_of_each(code) => Some(Kind::Refused),
        _ => None,
    }
}

/// The topic takes nothing from us, or not with this time: each message of a batch is refused for itself, and others can still be written.
pub(super) fn is_of_each(code: Code) -> bool {
    matches!(
        code,
        Code::TopicAuthorizationFailed | Code::InvalidTimestamp
    )
}

/// A question to the cluster was answered with this.
pub(super) fn request(code: Code) -> Verdict {
    match listed(code) {
        Some(Refuse(_)) => EndRun(Fatal),
        None => EndRun(Transient),
        Some(verdict) => verdict,
    }
}

/// What is wrong with a connection. An alert after the handshake, by which a broker refuses our certificate, is just a lost
/// connection for librdkafka.
pub(super) fn cause(code: Code, reason: &str) -> Code {
    if code == Code::BrokerTransportFailure && reason.contains(ALERT) {
        Code::SSL
    } else {
        code
    }
}

/// librdkafka tells of its connections: it makes new ones by itself.
pub(super) fn connection(code: Code) -> Verdict {
    listed(code).unwrap_or(Wait)
}

/// Whether this is about who we are.
pub(super) fn login(code: Code) -> bool {
    matches!(code, Code::Authentication | Code::SaslAuthenticationFailed)
}

/// The code inside; `rdkafka_error_code` of the crate leaves out those of the admin client.
pub(super) fn code(error: &KafkaError) -> Option<Code> {
    match error {
        KafkaError::AdminOp(code) => Some(*code),
        KafkaError::Canceled => Some(Code::OperationTimedOut),
        other => other.rdkafka_error_code(),
    }
}

/// What was being done when the error came.
#[derive(Debug, Clone, Copy)]
pub(super) enum Doing<'a> {
    Connecting,
    Writing(&'a str),
    Reading(&'a str),
    Creating(&'a str),
    LookingAt(&'a str),
}

/// The error for people. `reason` is librdkafka's own text, if it gave more than the code.
pub(super) fn error(code: Code, doing: Doing<'_>, tools: &Tools, reason: &str) -> Error {
    let text = if reason.is_empty() {
        code.to_string()
    } else {
        reason.to_owned()
    };
    if let (Doing::Creating(topic), EndRun(Fatal)) = (doing, request(code)) {
        return not_created(code, topic, tools, &text);
    }
    match code {
        Code::InvalidDifferentRecord => refused_together(topic(doing)),
        Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState => Error::fatal(
            format!("Kafka refused the login ({text})"),
            tools.mend_login(),
        ),
        Code::SSL => handshake(&text, tools),
        Code::TopicAuthorizationFailed => denied(doing, tools),
        Code::ClusterAuthorizationFailed => Error::fatal(
            "Kafka does not let this user write to any topic",
            format!(
                "grant it: {}; brokers older than 2.8 also want: {}",
                tools.grant("Write", "TOPIC"),
                tools.grant_on("IdempotentWrite", "--cluster")
            ),
        ),
        Code::InvalidTimestamp => Error::fatal(
            "Kafka does not accept the time of a message",
            "set the clocks of this machine and of the brokers right, or raise message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic",
        ),
        Code::UnsupportedCompressionType => Error::fatal(
            "Kafka does not accept this compression",
            "choose another sink.compression, \"lz4\" or \"none\"",
        ),
        Code::UnsupportedFeature | Code::UnsupportedVersion => Error::fatal(
            format!("this Kafka cannot do what is needed ({text})"),
            "use Apache Kafka 2.1 or newer",
        ),

        _ => plain(code, doing, &text),
    }
}

/// OpenSSL's words for what the other side says of us.
const ALERT: &str = "SSL alert number";

/// OpenSSL's words for what went wrong, and what they mean for a person.
fn handshake(text: &str, tools: &Tools) -> Error {
    let broker = tools.broker(text);
    if text.contains("certificate verify failed") {
        return Error::fatal(
            format!("the certificate of Kafka at {broker} cannot be verified"),
            format!(
                "it has expired, or it is not for the name in sink.brokers, or no authority in sink.tls.ca (the system's, if there is \
                 no such key) signed it; this says which: {}",
                tools.show_certificate(broker)
            ),
        );
    }
    if text.contains(ALERT) {
        return Error::fatal(
            format!(
                "Kafka at {broker} wants another certificate than ours, or one at all ({text})"
            ),
            "set sink.tls.cert and sink.tls.key to a certificate that the brokers trust, and its key",
        );
    }
    Error::fatal(
        format!("TLS with Kafka failed ({text})"),
        "let sink.brokers name a TLS listener, or correct sink.tls",
    )
}

fn describe(doing: Doing<'_>) -> String {
    match doing {
        Doing::Connecting => "connecting".to_owned(),
        Doing::Writing(topic) => format!("writing to topic \"{topic}\""),
        Doing::Reading(topic) => format!("reading topic \"{topic}\""),
        Doing::Creating(topic) => format!("creating topic \"{topic}\""),
        Doing::LookingAt(topic) => format!("looking at topic \"{topic}\""),
    }
}

fn plain(code: Code, doing: Doing<'_>, text: &str) -> Error {
    let what = format!("Kafka: {text} ({})", describe(doing));
    match request(code) {
        EndRun(Fatal) => Error::fatal(what, "correct what Kafka names, then start again"),
        _ => Error::transient(what),
    }
}

fn topic(doing: Doing<'_>) -> &str {
    match doing {
        Doing::Connecting => "*",
        Doing::Writing(topic)
        | Doing::Reading(topic)
        | Doing::Creating(topic)
        | Doing::LookingAt(topic) => topic,
    }
}

fn denied(doing: Doing<'_>, tools: &Tools) -> Error {
    let topic = topic(doing);
    let (verb, operation) = match doing {
        Doing::Writing(_) => ("write to", "Write"),
        Doing::Reading(_) => ("read", "Read"),
        Doing::Creating(_) => ("create", "Create"),
        Doing::LookingAt(_) | Doing::Connecting => ("see", "Describe"),
    };
    Error::fatal(
        format!("Kafka does not let this user {verb} topic \"{topic}\""),
        format!("grant it: {}", tools.grant(operation, topic)),
    )
}

fn not_created(code: Code, topic: &str, tools: &Tools, text: &str) -> Error {
    let by_hand = tools.create_topic(topic);
    match code {
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => Error::fatal(
            format!("Kafka does not let this user create topic \"{topic}\""),
            format!(
                "create it: {by_hand}; or grant it: {}",
                tools.grant("Create", topic)
            ),
        ),
        _ => Error::fatal(
            format!(
                "Kafka does not let topic \"{topic}\" be created with the settings it was to have ({text})"
            ),
            format!(
                "create it as the cluster wants it: {by_hand} --partitions N --replication-factor N; of topics of events [sink.topics] says \
                 how they are made"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_core::trouble::Trouble;

    #[test]
    fn a_message_that_comes_back_is_refused_or_ends_the_run() {
        for (code, verdict) in [
            (Code::MessageSizeTooLarge, Refuse(Kind::TooLarge)),
            (Code::MessageBatchTooLarge, Refuse(Kind::TooLarge)),
            (Code::InvalidRecord, Refuse(Kind::Refused)),
            (Code::InvalidMessage, Refuse(Kind::Refused)),
            (Code::InvalidTopic, Refuse(Kind::Unroutable)),
            (Code::UnknownTopicOrPartition, EndRun(Transient)),
            (Code::UnknownTopic, EndRun(Transient)),
            (Code::UnknownPartition, EndRun(Transient)),
            (Code::InvalidProducerEpoch, EndRun(Transient)),
            (Code::ProducerFenced, EndRun(Transient)),
            (Code::OutOfOrderSequenceNumber, EndRun(Transient)),
            (Code::Fatal, EndRun(Transient)),
            (Code::PurgeQueue, EndRun(Transient)),
            (Code::TopicAuthorizationFailed, EndRun(Fatal)),
            (Code::ClusterAuthorizationFailed, EndRun(Fatal)),
            (Code::SaslAuthenticationFailed, EndRun(Fatal)),
            (Code::PolicyViolation, EndRun(Fatal)),
        ] {
            assert_eq!(delivery(code), verdict, "{code:?}");
        }
    }

    #[test]
    fn what_is_not_in_the_table_ends_the_run() {
        assert_eq!(listed(Code::InconsistentVoterSet), None);
        assert_eq!(delivery(Code::InconsistentVoterSet), EndRun(Transient));
        assert_eq!(request(Code::InconsistentVoterSet), EndRun(Transient));
        assert_eq!(delivery(Code::Unknown), EndRun(Transient));
    }

    #[test]
    fn a_message_that_librdkafka_gave_up_is_not_waited_for() {
        assert_eq!(delivery(Code::BrokerTransportFailure), EndRun(Transient));
        assert_eq!(delivery(Code::NotEnoughReplicas), EndRun(Transient));
    }

    #[test]
    fn an_absent_broker_is_waited_for() {
        for code in [
            Code::BrokerTransportFailure,
            Code::AllBrokersDown,
            Code::Resolve,
            Code::OperationTimedOut,
        ] {
            assert_eq!((request(code), connection(code)), (Wait, Wait), "{code:?}");
        }
    }

    #[test]
    fn a_refused_login_is_not_waited_for() {
        for code in [
            Code::Authentication,
            Code::SaslAuthenticationFailed,
            Code::SSL,
        ] {
            assert_eq!(
                (request(code), connection(code)),
                (EndRun(Fatal), EndRun(Fatal)),
                "{code:?}"
            );
        }
    }

    #[test]
    fn connections_that_fail_in_an_unlisted_way_are_left_to_librdkafka() {
        assert_eq!(connection(Code::BadMessage), Wait);
    }

    #[test]
    fn the_error_is_as_fatal_as_the_verdict() {
        for code in [
            Code::InvalidRecord,
            Code::Authentication,
            Code::TopicAuthorizationFailed,
            Code::UnknownTopic,
            Code::Fenced,
            Code::Unknown,
            Code::InvalidPartitions,
        ] {
            for doing in [
                Doing::Connecting,
                Doing::Writing("t"),
                Doing::Reading("t"),
                Doing::Creating("t"),
                Doing::LookingAt("t"),
            ] {
                let error = error(code, doing, &Tools::for_tests(), "");
                assert_eq!(
                    error.is_fatal(),
                    request(code) == EndRun(Fatal),
                    "{code:?} {doing:?}: {error}"
                );
            }
        }
    }

    #[test]
    fn a_missing_right_is_named_with_the_command_that_grants_it() {
        let error = error(
            Code::TopicAuthorizationFailed,
            Doing::Writing("shop"),
            &Tools::for_tests(),
            "",
        );
        let text = error.to_string();
        assert!(text.contains("write to topic \"shop\""), "{text}");
        assert!(text.contains("--bootstrap-server b:1 --add --allow-principal 'User:shop' --operation Write --topic 'shop'"), "{text}");
    }

    #[test]
    fn a_certificate_that_a_broker_does_not_take_is_no_lost_connection() {
        let reason = "ssl://b:1/1: Receive failed: error:0A000412:SSL routines::sslv3 alert bad certificate: SSL alert number 42";
        let code = cause(Code::BrokerTransportFailure, reason);
        assert_eq!(code, Code::SSL);
        let error = error(code, Doing::Connecting, &Tools::for_tests(), reason);
        assert!(error.to_string().contains("sink.tls.cert"), "{error}");
        let lost = cause(Code::BrokerTransportFailure, "ssl://b:1/1: Disconnected");
        assert_eq!(lost, Code::BrokerTransportFailure);
    }

    #[test]
    fn a_refused_login_names_the_settings_to_look_at() {
        let error = error(
            Code::Authentication,
            Doing::Connecting,
            &Tools::for_tests(),
            "b:1/1: SASL SCRAM failed",
        );
        assert!(error.is_fatal());
        let text = error.to_string();
        assert!(text.contains("SASL SCRAM failed"), "{text}");
        assert!(
            text.contains("sink.sasl.username or sink.sasl.password"),
            "{text}"
        );
    }
}
