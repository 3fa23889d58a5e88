//! Benchmarks of the whole path on real servers: everything that is compared runs in one call, in turns, ratios first.
//!
//! `scripts/bench` builds the programs and calls this. Each subcommand writes its section of docs/performance.md.

// A benchmark that cannot get its servers has nothing better to do than to panic and say where.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod backlog;
mod drain;
mod figure;
mod idle;
mod latency;
mod meter;
mod mysqlbinlog;
mod page;
mod pipeline;
mod recvlogical;
mod snapshot;
mod stock;
mod topic;
mod walsender;
mod yardstick;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use headwater_testkit::Server;

use crate::backlog::{binlog, postgres};
use crate::page::Section;

#[derive(Parser)]
struct Bench {
    /// The released program.
    #[arg(long)]
    headwater: PathBuf,
    /// The same with the sink that only counts (feature `bench`).
    #[arg(long)]
    counting: PathBuf,
    /// The page whose section is written anew; without it, figures are only printed.
    #[arg(long)]
    page: Option<PathBuf>,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A backlog, as fast as it goes.
    Drain {
        #[arg(long, value_enum, default_value_t = Source::Postgres)]
        source: Source,
        #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(u32).range(10_000..))]
        rows: u32,
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// So many take each row, each with a topic of its own.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10))]
        routes: u32,
    },
    /// Rows that are there already, as fast as it goes.
    Snapshot {
        #[arg(long, value_enum, default_value_t = Source::Postgres)]
        source: Source,
        /// In tens of thousands: the sink tells no other numbers.
        #[arg(long, default_value_t = 1_000_000, value_parser = tens_of_thousands)]
        rows: u32,
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// From commit to consumer, under a steady load.
    Latency {
        #[arg(long, default_value_t = 30)]
        seconds: u32,
        #[arg(long, default_value_t = 2)]
        rounds: usize,
    },
    /// A pipeline with nothing to do.
    Idle {
        #[arg(long, default_value_t = 60)]
        seconds: u32,
        #[arg(long, default_value_t = 2)]
        rounds: usize,
    },
    /// What the server pays for the ways of asking it.
    Walsender {
        #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(10_000..))]
        rows: u32,
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Source {
    Postgres,
    Mysql,
    Mariadb,
}

/// Where the programs are.
struct Programs {
    headwater: PathBuf,
    counting: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let bench = Bench::parse();
    let programs = Programs {
        headwater: bench.headwater,
        counting: bench.counting,
    };
    let section = match bench.what {
        What::Drain {
            source,
            rows,
            rounds,
            routes,
        } => drain(&programs, source, (rows, rounds), routes).await,
        What::Snapshot {
            source,
            rows,
            rounds,
        } => snapshot(&programs, source, rows, rounds).await,
        What::Latency { seconds, rounds } => latency::measure(&programs, seconds, rounds).await,
        What::Idle { seconds, rounds } => idle::measure(&programs, seconds, rounds).await,
        What::Walsender { rows, rounds } => walsender::measure(rows, rounds).await,
    };
    println!("{}", section.text());
    if let Some(page) = bench.page {
        page::put(&page, &section);
    }
}

async fn drain(programs: &Programs, source: Source, extent: (u32, usize), routes: u32) -> Section {
    let server = match source {
        Source::Postgres => {
            return drain::measure(programs, &postgres::server(), extent, routes).await;
        }
        Source::Mysql => Server::MySql97,
        Source::Mariadb => Server::MariaDb118,
    };
    drain::measure(programs, &binlog::server(server), extent, routes).await
}

async fn snapshot(programs: &Programs, source: Source, rows: u32, rounds: usize) -> Section {
    let server = match source {
        Source::Postgres => {
            return snapshot::measure(programs, &postgres::server(), rows, rounds).await;
        }
        Source::Mysql => Server::MySql97,
        Source::Mariadb => Server::MariaDb118,
    };
    snapshot::measure(programs, &binlog::server(server), rows, rounds).await
}

fn tens_of_thousands(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(rows) if rows >= 10_000 && rows % 10_000 == 0 => Ok(rows),
        _ => Err("tens of thousands are wanted".to_owned()),
    }
}
