//! MySQL without GTIDs: the end of its log is ahead of what can be seen, so the table's writers wait for a moment where a snapshot begins.

use headwater_testkit::{Kafka, Mysql, Server};

use super::seam::handed_over;
use crate::binlog::WITHOUT_GTIDS;
use crate::scene::Scene;

#[tokio::test]
async fn nothing_falls_between_a_snapshot_and_the_log_without_gtids() {
    let mysql = Mysql::start(Server::MySql97, &WITHOUT_GTIDS);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "locked").await;
    let user = scene.database.name();
    let grant = format!("GRANT LOCK TABLES ON {user}.* TO '{user}'@'%'");
    mysql.execute(&grant).await;
    handed_over(scene).await;
}
