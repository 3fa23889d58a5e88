//! Where the fetched servers are, and as whom they run.

use std::env;
use std::path::PathBuf;

use nix::unistd::{Uid, User};

/// The folder of one fetched server (`pg17`, `kafka`), as `scripts/servers/get` lays them out.
pub(crate) fn server(name: &str) -> PathBuf {
    let folder = root().join(name);
    assert!(
        folder.is_dir(),
        "no {}: run scripts/test, which fetches the servers",
        folder.display()
    );
    folder
}

fn root() -> PathBuf {
    if let Some(folder) = env::var_os("HEADWATER_SERVERS") {
        return folder.into();
    }
    if Uid::effective().is_root() {
        return "/var/cache/headwater-servers".into();
    }
    let cache = env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(env::var_os("HOME").expect("HOME is set")).join(".cache"),
        PathBuf::from,
    );
    cache.join("headwater-servers")
}

/// PostgreSQL refuses to run as root: then it runs as `nobody`.
pub(crate) fn database_user() -> Option<(u32, u32)> {
    if !Uid::effective().is_root() {
        return None;
    }
    let nobody = User::from_name("nobody")
        .ok()
        .flatten()
        .expect("a user nobody");
    Some((nobody.uid.as_raw(), nobody.gid.as_raw()))
}
