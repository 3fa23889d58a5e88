//! All that one letter says.

use headwater_core::dead_letter::Letter;
use serde_json::{Map, Value, json};

use super::{Exit, Format, closed, found, topic, unknown};
use crate::config::Config;
use crate::dead_letters::{Stand, read};

pub async fn show(config: &Config, id: &str, format: Format) -> Result<(), Exit> {
    let (topic, back) = topic(config).await?;
    let Some(back) = back else {
        return Err(unknown(id, topic));
    };
    let letters = found(config, Some(&back), &[id.to_owned()]).await?;
    let stand = match letters.named(id).as_slice() {
        [] => return Err(unknown(id, topic)),
        [only] => (*only).clone(),
        several => match several.iter().find(|stand| stand.id == id) {
            Some(exact) => (*exact).clone(),
            None => return Err(ambiguous(id, several)),
        },
    };
    let held = read(&back, std::slice::from_ref(&stand)).await?;
    let Some(held) = held.first() else {
        return Err(unknown(id, topic));
    };
    match format {
        Format::Text => print(&held.letter, &stand),
        Format::Json => {
            let json = serde_json::to_string_pretty(&whole(&held.letter, &stand));
            println!("{}", json.unwrap_or_default());
        }
    }
    Ok(())
}

fn ambiguous(id: &str, several: &[&Stand]) -> Exit {
    let ids: Vec<&str> = several.iter().map(|stand| stand.id.as_str()).collect();
    Exit::Configuration(format!(
        "event {id} has several dead letters: {}",
        ids.join(", ")
    ))
}

/// The headers by their names, without those that are missing.
fn headers(letter: &Letter) -> Vec<(&'static str, String)> {
    let key = letter.key.as_ref();
    let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let all = [
        ("id", text(&letter.id)),
        ("event id", text(&letter.event_id)),
        ("kind", text(&letter.kind)),
        ("reason", text(&letter.reason)),
        ("error", text(&letter.error)),
        ("table", text(&letter.table)),
        ("position", text(&letter.position)),
        ("transaction", text(&letter.transaction)),
        ("time", text(&letter.time)),
        ("route", letter.route.map(|number| number.to_string())),
        ("topic", letter.topic.clone()),
        (
            "key",
            key.map(|key| String::from_utf8_lossy(key).into_owned()),
        ),
        ("version", text(&letter.version)),
        ("pipeline", text(&letter.name)),
    ];
    let there = |(name, value): (&'static str, Option<String>)| Some((name, value?));
    all.into_iter().filter_map(there).collect()
}

fn print(letter: &Letter, stand: &Stand) {
    let told = |name: &str, text: &str| println!("{name:>12}  {text}");
    for (name, text) in headers(letter) {
        told(name, &text);
    }
    told("state", &closed(stand).unwrap_or_else(|| "open".into()));
    for (partition, offset) in &stand.places {
        told(
            "stands at",
            &format!("partition {partition}, offset {offset}"),
        );
    }
    if letter.out_of_order {
        told(
            "order",
            "later messages of its key were delivered before it",
        );
    }
    if !letter.cut.is_empty() {
        told("cut", &letter.cut.join(", "));
    }
    println!();
    for (name, text) in &letter.columns {
        let unreadable = letter.unreadable.iter().find(|(column, _)| column == name);
        match (text, unreadable) {
            (Some(text), _) => println!("{name} = {text}"),
            (None, Some((_, Some(why)))) => println!("{name}: not read: {why}"),
            (None, _) => println!("{name} is null"),
        }
    }
}

fn whole(letter: &Letter, stand: &Stand) -> Value {
    let object = |pairs: &[(String, Option<String>)]| {
        let pair = |(name, text): &(String, Option<String>)| (name.clone(), json!(text));
        Value::Object(pairs.iter().map(pair).collect::<Map<_, _>>())
    };
    let headers = headers(letter).into_iter();
    let headers = headers.map(|(name, text)| (name.replace(' ', "_"), Value::from(text)));
    let mut whole: Map<String, Value> = headers.collect();
    let more = [
        ("replayed", json!(stand.replayed)),
        ("out_of_order", json!(letter.out_of_order)),
        ("columns", object(&letter.columns)),
        ("bytes", json!(letter.bytes)),
        ("cut", json!(letter.cut)),
        ("unreadable", object(&letter.unreadable)),
    ];
    whole.extend(more.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(whole)
}
