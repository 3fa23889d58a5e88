//! `walsender`: what the server pays for binary values, for the publication's row filter, and for its list of columns.

use crate::backlog::Shape;
use crate::backlog::postgres::{self, Backlog};
use crate::figure::Figure;
use crate::page::Section;
use crate::recvlogical;

/// Publication, and what it does.
const PUBLICATIONS: [(&str, &str); 4] = [
    ("bench_all", "all rows"),
    ("bench_filter", "row filter"),
    ("bench_list", "column list"),
    ("bench_both", "row filter and column list"),
];

pub async fn measure(rows: u32, rounds: usize) -> Section {
    let postgres = postgres::server();
    let mut section = Section::new("Walsender", &postgres::version(&postgres));
    section.line(&format!(
        "What PostgreSQL itself pays to send {rows} rows of an outbox (a thousand a transaction) to `pg_recvlogical`, in processor time of its walsender for a \
         row of the table, sentinels included; {rounds} rounds, the middle one, and from where to where they went. The list names all 13 columns.\n"
    ));
    for sentinels in [10, 90] {
        let shape = Shape {
            rows,
            rows_a_transaction: 1000,
            sentinels,
        };
        let backlog = Backlog::write(&postgres, shape).await;
        let figures = rounds_of(&backlog, rows, rounds).await;
        section.line(&format!("### {sentinels} % sentinels\n"));
        let base = figures[0].median();
        let rows: Vec<Vec<String>> = ways()
            .zip(&figures)
            .map(|((_, what, binary), figure)| {
                vec![
                    what.to_owned(),
                    if binary { "binary" } else { "text" }.to_owned(),
                    format!("{:.2}", figure.median() / base),
                    figure.shown(2).to_string(),
                ]
            })
            .collect();
        section.table(
            &["publication", "values", "of the first", "µs a row"],
            &rows,
        );
    }
    section
}

fn ways() -> impl Iterator<Item = (&'static str, &'static str, bool)> {
    let values = [false, true].into_iter();
    values.flat_map(|binary| {
        PUBLICATIONS
            .iter()
            .map(move |(name, what)| (*name, *what, binary))
    })
}

async fn rounds_of(backlog: &Backlog<'_>, rows: u32, rounds: usize) -> Vec<Figure> {
    let mut figures: Vec<Figure> = ways().map(|_| Figure::default()).collect();
    for _ in 0..rounds {
        for ((publication, what, binary), figure) in ways().zip(&mut figures) {
            let options = [
                format!("--option=publication_names={publication}"),
                format!("--option=binary={binary}"),
            ];
            let took = recvlogical::drain(backlog, &options.each_ref().map(String::as_str)).await;
            let micros = took.sender.cpu.as_secs_f64() * 1e6 / f64::from(rows);
            eprintln!("{what}, binary {binary}: {micros:.2} µs");
            figure.add(micros);
        }
    }
    figures
}
