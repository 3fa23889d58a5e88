//! The letters that are open, in the order of their times.

use serde_json::json;

use super::{Exit, Format, found, topic};
use crate::config::Config;
use crate::dead_letters::Stand;

pub async fn list(config: &Config, format: Format) -> Result<(), Exit> {
    let (topic, back) = topic(config).await?;
    let letters = found(config, back.as_ref(), &[]).await?;
    let mut open: Vec<&Stand> = letters.open().collect();
    open.sort_unstable_by(|a, b| (&a.time, &a.id).cmp(&(&b.time, &b.id)));
    if format == Format::Json {
        for stand in open {
            println!("{}", line(stand));
        }
        return Ok(());
    }
    if back.is_none() {
        println!("no dead letters: there is no topic {topic}");
        return Ok(());
    }
    table(&open);
    println!(
        "{} open on topic {topic}, {} replayed",
        open.len(),
        letters.replayed
    );
    for (count, what) in [
        (letters.others, "of other pipelines"),
        (letters.strange, "messages that are no dead letters"),
    ] {
        if count > 0 {
            println!("{count} {what}");
        }
    }
    Ok(())
}

fn table(open: &[&Stand]) {
    if open.is_empty() {
        return;
    }
    let none = "-".to_owned();
    let rows: Vec<[&str; 4]> = open
        .iter()
        .map(|it| {
            let event_type = it.event_type.as_ref().unwrap_or(&none);
            [&it.time, &it.kind, event_type, &it.id].map(String::as_str)
        })
        .collect();
    let heads = ["TIME", "KIND", "EVENT TYPE", "ID"];
    let widest = |place: usize| {
        let cells = rows.iter().filter_map(|row| row.get(place));
        let cells = cells.chain(heads.get(place));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let [time, kind, event_type, id] = [0, 1, 2, 3].map(widest);
    let tell = |cells: &[&str; 4], error: &str| {
        let [a, b, c, d] = cells;
        println!("{a:time$}  {b:kind$}  {c:event_type$}  {d:id$}  {error}");
    };
    tell(&heads, "ERROR");
    for (cells, stand) in rows.iter().zip(open) {
        tell(cells, &error(stand));
    }
}

/// On one line.
fn error(stand: &Stand) -> String {
    stand.error.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn line(stand: &Stand) -> String {
    json!({
        "id": stand.id,
        "event_id": stand.event_id,
        "kind": stand.kind,
        "time": stand.time,
        "event_type": stand.event_type,
        "topic": stand.topic,
        "error": stand.error,
        "out_of_order": stand.out_of_order,
        "cut": stand.is_cut,
    })
    .to_string()
}
