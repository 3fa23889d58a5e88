//! Free ports on loopback, each given out once in this process.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Mutex;

use rand::Rng;

static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Below the ports that the kernel hands to outgoing connections (32768 and up): such a connection could take a killed
/// server's port before it is started again, or connect to itself.
pub fn free_port() -> u16 {
    let mut given = GIVEN.lock().unwrap();
    loop {
        let port = rand::rng().random_range(12_000..32_000);
        if !given.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            given.insert(port);
            return port;
        }
    }
}
