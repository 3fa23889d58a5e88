//! `sink.tls` and `sink.sasl`: what fits together.

use super::*;

/// `JSON` with further lines in `[sink]`, from line 11.
fn sink(lines: &str) -> String {
    extended("", &format!("{lines}\n"))
}

#[test]
fn each_mode_of_tls_is_understood() {
    let mode = |lines: &str| {
        let config = good(&sink(lines), &[]);
        kafka(&config).tls.as_ref().map(|tls| tls.mode)
    };
    for (lines, wanted) in [
        ("", None),
        ("tls.mode = 'disable'", None),
        ("tls.mode = 'require'", Some(KafkaTlsMode::Require)),
        ("tls.mode = 'verify-ca'", Some(KafkaTlsMode::VerifyCa)),
        ("tls.mode = 'verify-full'", Some(KafkaTlsMode::VerifyFull)),
        ("tls.ca = 'ca.pem'", Some(KafkaTlsMode::VerifyFull)),
        // Who writes an empty table expects protection.
        ("tls = {}", Some(KafkaTlsMode::VerifyFull)),
    ] {
        assert_eq!(mode(lines), wanted, "{lines}");
    }
}

#[test]
fn files_begin_in_the_configurations_folder() {
    let config = good(
        &sink("tls = { mode = 'verify-ca', ca = 'ca.pem', cert = '/c.pem', key = 'k.pem' }"),
        &[],
    );
    let tls = kafka(&config).tls.clone().unwrap();
    assert_eq!(tls.ca, Some(PathBuf::from("conf/ca.pem")));
    let identity = (PathBuf::from("/c.pem"), PathBuf::from("conf/k.pem"));
    assert_eq!(tls.identity, Some(identity));
}

#[test]
fn a_login_takes_a_password_in_one_of_three_ways() {
    for (way, shown) in [
        ("password = 'p'", "Literal(***)"),
        ("password_file = 'f'", "File(\"conf/f\")"),
        (
            "password_command = 'c'",
            "Command { line: ***, folder: \"conf\" }",
        ),
    ] {
        let login = format!("sasl = {{ mechanism = 'SCRAM-SHA-512', username = 'u', {way} }}");
        let config = good(&sink(&login), &[]);
        let login = by_password(&config);
        assert_eq!(login.mechanism, SaslMechanism::ScramSha512);
        assert_eq!(login.username, "u");
        assert_eq!(format!("{:?}", login.password), shown);
    }
    let environment = [
        ("HEADWATER__SINK__SASL__MECHANISM", "PLAIN"),
        ("HEADWATER__SINK__SASL__USERNAME", "u"),
        ("HEADWATER__SINK__SASL__PASSWORD", "p"),
    ];
    let config = good(JSON, &environment);
    assert_eq!(by_password(&config).mechanism, SaslMechanism::Plain);
}

fn by_password(config: &Config) -> PasswordLogin {
    match kafka(config).sasl.clone() {
        Some(Sasl::Password(login)) => login,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_login_by_tokens_takes_a_secret_in_one_of_three_ways() {
    for (way, shown) in [
        ("client_secret = 'p'", "Literal(***)"),
        ("client_secret_file = 'f'", "File(\"conf/f\")"),
        (
            "client_secret_command = 'c'",
            "Command { line: ***, folder: \"conf\" }",
        ),
    ] {
        let login = format!(
            "sasl = {{ mechanism = 'OAUTHBEARER', token_endpoint = 'https://i/t', token_ca = 'ca.pem', client_id = 'c', \
             {way}, scope = 's t', extensions = {{ logicalCluster = 'lkc-1' }} }}"
        );
        let config = good(&sink(&login), &[]);
        let Some(Sasl::Token(login)) = kafka(&config).sasl.clone() else {
            panic!("no login by tokens");
        };
        assert_eq!(login.endpoint.value(), "https://i/t");
        assert_eq!(login.ca, Some(PathBuf::from("conf/ca.pem")));
        assert_eq!(login.client_id, "c");
        assert_eq!(format!("{:?}", login.secret), shown);
        assert_eq!(login.scope.as_deref(), Some("s t"));
        let extension = ("logicalCluster".to_owned(), "lkc-1".to_owned());
        assert_eq!(login.extensions, [extension]);
    }
}

#[test]
fn what_a_login_by_tokens_lacks_or_cannot_hold_is_told() {
    let at = "conf/hw.toml:11: sink.sasl";
    let whole = "token_endpoint = 'https://i/t', client_id = 'c', client_secret = 's'";
    for (members, wanted) in [
        (
            "mechanism = 'OAUTHBEARER'",
            format!(
                "{at}.client_id: is missing; a string is wanted\n\
                 {at}.client_secret: is missing; it, sink.sasl.client_secret_file or sink.sasl.client_secret_command is wanted\n\
                 {at}.token_endpoint: is missing; a string is wanted"
            ),
        ),
        (
            whole,
            format!(
                "{at}.mechanism: is missing; wanted is one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"
            ),
        ),
        (
            &format!("mechanism = 'OAUTHBEARER', {whole}, client_secret_file = 'f'"),
            format!(
                "{at}.client_secret_file: gives a secret, and so does sink.sasl.client_secret (conf/hw.toml:11); one way to give it is wanted"
            ),
        ),
        (
            &format!("mechanism = 'OAUTHBEARER', {whole}, username = 'u'"),
            format!(
                "{at}.username: means nothing with sink.sasl.mechanism = \"OAUTHBEARER\"; remove it, or choose another mechanism"
            ),
        ),
        (
            "mechanism = 'PLAIN', username = 'u', password = 'p', scope = 's'",
            format!(
                "{at}.scope: means nothing unless sink.sasl.mechanism is \"OAUTHBEARER\"; remove it, or choose that"
            ),
        ),
        (
            &format!("mechanism = 'OAUTHBEARER', {whole}, extensions = {{ auth = 'x' }}"),
            format!(
                "{at}.extensions.auth: has a name that no extension can have; letters only are wanted, not \"auth\""
            ),
        ),
        (
            &format!("mechanism = 'OAUTHBEARER', {whole}, extensions = {{ a = 'ä' }}"),
            format!("{at}.extensions.a: has what no extension can hold; printable ASCII is wanted"),
        ),
    ] {
        let text = sink(&format!("sasl = {{ {members} }}"));
        assert_problems(&[(&text, &wanted)]);
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let at = "conf/hw.toml:11: sink";
    for (lines, wanted) in [
        (
            "tls.mode = 'on'",
            format!(
                "{at}.tls.mode: cannot be \"on\"; wanted is one of disable, require, verify-ca, verify-full"
            ),
        ),
        (
            "tls = { mode = 'disable', ca = 'c' }",
            format!(
                "{at}.tls.ca: means nothing with sink.tls.mode = \"disable\"; remove it, or the mode"
            ),
        ),
        (
            "tls = { mode = 'require', ca = 'c' }",
            format!(
                "{at}.tls.ca: means nothing with sink.tls.mode = \"require\", which verifies nothing; \"verify-ca\" or \"verify-full\" is wanted"
            ),
        ),
        (
            "tls.cert = 'c'",
            format!("{at}.tls.cert: is of no use without sink.tls.key"),
        ),
        (
            "tls.key = 'k'",
            format!("{at}.tls.key: is of no use without sink.tls.cert"),
        ),
        (
            "sasl = {}",
            format!(
                "{at}.sasl.mechanism: is missing; wanted is one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER\n\
                 {at}.sasl.password: is missing; it, sink.sasl.password_file or sink.sasl.password_command is wanted\n\
                 {at}.sasl.username: is missing; a string is wanted"
            ),
        ),
        (
            "sasl = { mechanism = 'GSSAPI', username = 'u', password = 'p' }",
            format!(
                "{at}.sasl.mechanism: cannot be \"GSSAPI\"; wanted is one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"
            ),
        ),
        (
            "sasl = { mechanism = 'PLAIN', username = 'u', password = 'p', password_file = 'f' }",
            format!(
                "{at}.sasl.password_file: gives a password, and so does sink.sasl.password (conf/hw.toml:11); one way to give it is wanted"
            ),
        ),
    ] {
        assert_problems(&[(&sink(lines), &wanted)]);
    }
}

#[test]
fn what_is_given_both_ways_is_refused_with_both_lines() {
    let sasl = "sasl = { mechanism = 'PLAIN', username = 'u', password = 'p' }";
    for (ours, property, key) in [
        ("tls.mode = 'require'", "security.protocol", "sink.tls"),
        ("tls = {}", "ssl.ca.location", "sink.tls"),
        ("tls.mode = 'disable'", "security.protocol", "sink.tls"),
        (sasl, "security.protocol", "sink.sasl"),
        (sasl, "sasl.mechanism", "sink.sasl"),
        (sasl, "sasl.password", "sink.sasl"),
        (sasl, "sasl.oauthbearer.method", "sink.sasl"),
        (sasl, "enable.sasl.oauthbearer.unsecure.jwt", "sink.sasl"),
    ] {
        let text = sink(&format!("{ours}\nproperties.\"{property}\" = 'x'"));
        let wanted = format!(
            "conf/hw.toml:12: sink.properties.{property}: says what {key} (conf/hw.toml:11) says; one of the two is wanted"
        );
        assert_problems(&[(&text, &wanted)]);
    }
    // Whoever gives an authority expects TLS, and a login alone would go in plain text.
    let text = sink(&format!("{sasl}\nproperties.\"ssl.ca.location\" = 'x'"));
    assert_problems(&[(
        &text,
        "conf/hw.toml:12: sink.properties.ssl.ca.location: means nothing beside sink.sasl (conf/hw.toml:11) without sink.tls; set that, or remove it",
    )]);
    // The rest of librdkafka's settings can be given beside them.
    good(
        &sink("tls = {}\nproperties.\"ssl.key.password\" = 'x'"),
        &[],
    );
}
