//! What one row of a typical outbox costs from the binlog's bytes to an item: 13 columns, some 800 bytes.
//!
//! `cargo bench -p headwater-source --features bench --bench binlog`

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use headwater_source::mysql::bench::{Log, Shape};

fn read(log: &mut Log, events: Vec<Bytes>) -> usize {
    let mut items = 0;
    for event in events {
        items += log.take(event);
    }
    items
}

fn binlog(criterion: &mut Criterion) {
    const ROWS: usize = 10_000;
    let mut group = criterion.benchmark_group("binlog");
    group.throughput(Throughput::Elements(ROWS as u64));
    for (name, shape) in [
        (
            "one row a transaction",
            Shape {
                rows: 1,
                checksums: true,
                outbox: true,
            },
        ),
        (
            "one row, no checksums",
            Shape {
                rows: 1,
                checksums: false,
                outbox: true,
            },
        ),
        (
            "a thousand rows a transaction",
            Shape {
                rows: 1000,
                checksums: true,
                outbox: true,
            },
        ),
        (
            "another table",
            Shape {
                rows: 1,
                checksums: true,
                outbox: false,
            },
        ),
    ] {
        let events = shape.events(ROWS / shape.rows);
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || (Log::new(), events.clone()),
                |(mut log, events)| read(&mut log, events),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, binlog);
criterion_main!(benches);
