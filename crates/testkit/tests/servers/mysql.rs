//! The same on MySQL and MariaDB.

use std::collections::HashSet;

use headwater_testkit::{Load, Mysql, PASSWORD, SecureMysql, Server, Shown};
use uuid::Uuid;

use crate::LIMIT;

#[tokio::test]
async fn each_server_starts_with_an_outbox_and_a_user_of_few_rights() {
    for (server, version) in Server::ALL.into_iter().zip(["9.7", "10.11", "11.8"]) {
        let mysql = Mysql::shared(server);
        let database = mysql.database("start").await;
        let told = mysql.ask("SELECT VERSION()").await.unwrap();
        assert!(told.starts_with(version), "{told}");
        for (variable, value) in [("binlog_format", "ROW"), ("binlog_row_metadata", "FULL")] {
            let told = mysql.ask(&format!("SELECT @@GLOBAL.{variable}")).await;
            assert_eq!(told.as_deref(), Some(value), "{server:?}");
        }
        let written = database.bulk_rows("n", 2000, 100).await;
        assert_eq!(written.committed.len(), 2000);
        assert_eq!(database.events("n").await.len(), 2000);
        assert_eq!(database.readers().await, 0);
        assert!(logs_in(&database.url()).await, "{server:?}");
        let wrong = database.url().replace(PASSWORD, "wrong");
        assert!(
            !logs_in(&wrong).await,
            "{server:?}: a wrong password was taken"
        );
    }
}

async fn logs_in(url: &str) -> bool {
    let url = url.replacen("mariadb://", "mysql://", 1);
    let options = mysql_async::Opts::from_url(&url).unwrap();
    let options = mysql_async::OptsBuilder::from_opts(options).prefer_socket(false);
    mysql_async::Conn::new(options).await.is_ok()
}

#[tokio::test]
async fn writers_know_what_they_committed_though_mysql_is_killed() {
    writers_know_what_they_committed(Server::MySql97).await;
}

#[tokio::test]
async fn writers_know_what_they_committed_though_mariadb_is_killed() {
    writers_know_what_they_committed(Server::MariaDb118).await;
}

async fn writers_know_what_they_committed(server: Server) {
    let mysql = Mysql::start(server, &[]);
    let database = mysql.database("load").await;
    let writing = Load::new("n", 7).start(&database.owner_url());
    for goal in [300, 600] {
        writing.wait_for(goal, LIMIT).await;
        mysql.kill9();
        mysql.start_again();
    }
    writing.wait_for(900, LIMIT).await;
    mysql.restart();
    let written = writing.stop().await;
    assert!(!written.rolled_back.is_empty() && !written.sentinels.is_empty());
    let there: HashSet<Uuid> = database.events("n").await.iter().map(|e| e.id).collect();
    let committed: HashSet<Uuid> = written.committed.iter().map(|e| e.id).collect();
    assert_eq!(there, committed);
    let all = database.ask("SELECT COUNT(*) FROM events").await.unwrap();
    let expected = written.committed.len() + written.sentinels.len();
    assert_eq!(all, expected.to_string());
}

#[tokio::test]
async fn a_replica_follows_and_takes_its_primarys_place() {
    for server in [Server::MySql97, Server::MariaDb118] {
        let primary = Mysql::start(server, &[]);
        let database = primary.database("replica").await;
        let replica = primary.replica(&[]);
        database.bulk_rows("n", 1000, 100).await;
        replica.has_all_of(&primary).await;
        primary.kill9();
        replica.promote().await;
        let count = format!("SELECT COUNT(*) FROM {}", database.table());
        assert_eq!(replica.ask(&count).await.as_deref(), Some("1000"));
        replica
            .execute(&format!("DELETE FROM {}", database.table()))
            .await;
    }
}

#[tokio::test]
async fn servers_with_certificates_start_and_change_them() {
    for server in [Server::MySql97, Server::MariaDb118] {
        let secure = SecureMysql::start(server);
        secure.show(Shown::Expired);
        secure.show(Shown::Right);
        let ca = secure.mysql.ask("SELECT @@ssl_ca").await.unwrap();
        assert_eq!(ca, secure.papers.ca().display().to_string());
    }
}
