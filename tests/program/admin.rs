//! The admin pages of a pipeline that needs no server.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use headwater_testkit::{Page, free_port, get, request};
use serde_json::Value;

use crate::{code, headwater, run, stderr, stdout};

const TOKEN: &str = "an-admin-token";

/// A pipeline at work in a folder of its own; ended when dropped.
struct Scene {
    folder: tempfile::TempDir,
    port: u16,
    run: Option<Child>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(run) = &mut self.run {
            let _ = run.kill();
            let _ = run.wait();
        }
    }
}

impl Scene {
    fn new(admin: &str) -> Scene {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let database = rusqlite::Connection::open(folder.path().join("shop.db")).unwrap();
        let table = include_str!("../../schemas/outbox/sqlite.sql");
        database.execute_batch(table).unwrap();
        configure(folder.path(), port, admin);
        fs::write(folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
        let output = run(folder.path(), &["init"]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        Scene {
            folder,
            port,
            run: None,
        }
    }

    fn start(admin: &str) -> Scene {
        let mut scene = Scene::new(admin);
        let run = headwater(scene.folder.path(), &["run"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        scene.run = Some(run);
        let end = Instant::now() + Duration::from_secs(20);
        while get(scene.port, "/ready").is_none_or(|page| page.code != 200) {
            assert!(Instant::now() < end, "it never came to be ready");
            std::thread::sleep(Duration::from_millis(20));
        }
        scene
    }

    fn with_host(&self, host: &str) -> u16 {
        let head = format!("GET /status HTTP/1.1\r\n{host}");
        request(self.port, &head).unwrap().code
    }

    fn with_token(&self, path: &str, token: &str) -> Page {
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n");
        request(self.port, &head).unwrap()
    }
}

fn configure(folder: &Path, port: u16, admin: &str) {
    let config = format!(
        "name = \"shop\"\n[source]\nurl = \"sqlite:shop.db\"\nsnapshot = \"never\"\n[encode]\nformat = \"json\"\n\
         [sink]\nkind = \"stdout\"\n[position]\nfile = \"position.json\"\n[admin]\nlisten = \"127.0.0.1:{port}\"\n{admin}\n"
    );
    fs::write(folder.join("headwater.toml"), config).unwrap();
}

#[test]
fn a_pipeline_at_work_tells_how_it_stands() {
    let scene = Scene::start("");
    let page = |path| get(scene.port, path).unwrap();
    assert_eq!(page("/health").code, 200);
    let metrics = page("/metrics");
    assert_eq!(metrics.code, 200);
    assert_eq!(metrics.metric("headwater_ready"), Some(1.0));
    assert_eq!(metrics.metric("headwater_rows_total"), Some(0.0));
    let status: Value = serde_json::from_str(&page("/status").text).unwrap();
    assert_eq!(status["ready"], true);
    assert_eq!(status["waiting_for"], "nothing: it waits for new rows");
    assert_eq!(page("/").code, 404);

    let output = run(scene.folder.path(), &["status"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("shop, delivering"),
        "{}",
        stdout(&output)
    );
    let output = run(scene.folder.path(), &["status", "--format", "json"]);
    let printed: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(printed["pipeline"], "shop");
}

#[test]
fn nothing_can_be_changed_and_a_foreign_host_is_refused() {
    let scene = Scene::start("");
    let post = "POST /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n";
    assert_eq!(request(scene.port, post).unwrap().code, 405);
    for (host, wanted) in [
        ("Host: localhost\r\n", 200),
        ("Host: 127.0.0.1:1\r\n", 200),
        ("Host: evil.example\r\n", 403),
        ("Host: localhost.evil.example\r\n", 403),
        ("", 403),
    ] {
        assert_eq!(scene.with_host(host), wanted, "{host}");
    }
}

#[test]
fn with_a_token_only_its_holder_sees_more_than_health_and_readiness() {
    let scene = Scene::start("token_file = \"token\"");
    for (path, wanted) in [
        ("/health", 200),
        ("/ready", 200),
        ("/metrics", 401),
        ("/status", 401),
    ] {
        assert_eq!(get(scene.port, path).unwrap().code, wanted, "{path}");
    }
    for (token, wanted) in [("", 401), ("an-admin", 401), (TOKEN, 200)] {
        let page = scene.with_token("/metrics", token);
        assert_eq!(page.code, wanted, "{token}");
        assert!(!page.text.contains(TOKEN));
    }
    let output = run(scene.folder.path(), &["status"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));

    // A new one counts at once.
    fs::write(scene.folder.path().join("token"), "another").unwrap();
    assert_eq!(scene.with_token("/status", TOKEN).code, 401);
    assert_eq!(scene.with_token("/status", "another").code, 200);
}

#[test]
fn a_port_that_is_taken_and_a_token_that_is_missing_are_told_at_the_start() {
    let first = Scene::start("");
    let second = Scene::new("");
    configure(second.folder.path(), first.port, "");
    let output = run(second.folder.path(), &["run"]);
    assert_eq!(code(&output), Some(2), "{}", stderr(&output));
    for words in [
        "headwater.toml:12",
        "admin.listen",
        "is taken",
        "a port of its own",
    ] {
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    configure(
        second.folder.path(),
        second.port,
        "token_file = \"missing\"",
    );
    let output = run(second.folder.path(), &["run"]);
    assert_eq!(code(&output), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("admin.token_file"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn without_the_default_address_a_pipeline_carries_events_all_the_same() {
    // Whoever has it already, nobody else can.
    let _taken = std::net::TcpListener::bind("127.0.0.1:9464");
    let mut scene = Scene::new("");
    let file = scene.folder.path().join("headwater.toml");
    let text = fs::read_to_string(&file).unwrap();
    let (before, _) = text.split_once("[admin]").unwrap();
    fs::write(&file, before).unwrap();
    let log = fs::File::create(scene.folder.path().join("log")).unwrap();
    let run = headwater(scene.folder.path(), &["run"])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    scene.run = Some(run);
    let end = Instant::now() + Duration::from_secs(20);
    let log = || fs::read_to_string(scene.folder.path().join("log")).unwrap();
    while !log().contains("carrying events") {
        assert!(Instant::now() < end, "{}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(log().contains("there are no admin pages"), "{}", log());
}

#[test]
fn a_headwater_that_does_not_run_has_no_status() {
    let scene = Scene::new("");
    let output = run(scene.folder.path(), &["status"]);
    assert_eq!(code(&output), Some(3), "{}", stderr(&output));
    let address = format!("127.0.0.1:{}", scene.port);
    assert!(stderr(&output).contains(&address), "{}", stderr(&output));
    let config = fs::read_to_string(scene.folder.path().join("headwater.toml")).unwrap();
    let off = config.replace(&address, "off");
    fs::write(scene.folder.path().join("headwater.toml"), off).unwrap();
    let output = run(scene.folder.path(), &["status"]);
    assert_eq!(code(&output), Some(2), "{}", stderr(&output));
}
