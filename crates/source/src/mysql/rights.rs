//! The rights that a pipeline's user needs, as the statements that give them: these and no others.

use headwater_core::rights::Rights;

use super::{Flavor, Settings, ident, literal};

/// For an administrator, before Headwater ever connects. The password is left to be filled in.
pub fn rights(settings: &Settings) -> Rights {
    let mut grants = vec![user(settings)];
    grants.extend(of_a_user(settings));
    Rights {
        whose: format!(
            "user {} of {} at {}",
            settings.user,
            settings.flavor,
            settings.place()
        ),
        grants,
    }
}

fn account(settings: &Settings) -> String {
    format!("{}@'%'", literal(&settings.user))
}

/// From everywhere: where Headwater will run is not known here.
pub(super) fn user(settings: &Settings) -> String {
    format!("CREATE USER {} IDENTIFIED BY '...';", account(settings))
}

/// What a user that may log in is granted. Reading the log is a right to all of it: the server knows no smaller one.
pub(super) fn of_a_user(settings: &Settings) -> [String; 2] {
    let account = account(settings);
    let watch = match settings.flavor {
        Flavor::MySql => "REPLICATION CLIENT",
        Flavor::MariaDb => "BINLOG MONITOR",
    };
    [
        format!("GRANT REPLICATION SLAVE, {watch} ON *.* TO {account};"),
        format!(
            "GRANT SELECT ON {}.{} TO {account};",
            ident(&settings.schema),
            ident(&settings.table)
        ),
    ]
}

/// What a snapshot of a server without GTIDs needs besides. There is no smaller right than to all tables of a database.
pub(super) fn to_lock(settings: &Settings) -> String {
    format!(
        "GRANT LOCK TABLES ON {}.* TO {};",
        ident(&settings.schema),
        account(settings)
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    #[test]
    fn a_user_gets_the_log_and_one_table() {
        let mut settings = settings();
        settings.user = "cd'c".into();
        let Rights { whose, grants } = rights(&settings);
        assert_eq!(whose, "user cd'c of MySQL at localhost:3306");
        assert_eq!(
            grants,
            [
                r"CREATE USER 'cd\'c'@'%' IDENTIFIED BY '...';",
                r"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'cd\'c'@'%';",
                r"GRANT SELECT ON `eventlog`.`events` TO 'cd\'c'@'%';",
            ]
        );
        settings.flavor = Flavor::MariaDb;
        assert!(rights(&settings).grants[1].contains("SLAVE, BINLOG MONITOR ON"));
    }
}
