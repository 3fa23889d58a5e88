//! The rights that a pipeline's role needs, as the statements that give them: these and no others.

use headwater_core::rights::Rights;

use super::{Settings, ident};

/// For an administrator, before Headwater ever connects. The password is left to be filled in.
pub fn rights(settings: &Settings) -> Rights {
    let role = ident(&settings.user);
    let mut grants = vec![format!(
        "CREATE ROLE {role} LOGIN REPLICATION PASSWORD '...';"
    )];
    grants.extend(of_a_role(settings));
    Rights {
        whose: format!(
            "role {} of PostgreSQL at {}",
            settings.user,
            settings.place()
        ),
        grants,
    }
}

/// What a role that may log in and replicate is granted.
pub(super) fn of_a_role(settings: &Settings) -> [String; 3] {
    let role = ident(&settings.user);
    let (database, schema, table) = (
        ident(&settings.database),
        ident(&settings.schema),
        ident(&settings.table),
    );
    [
        format!("GRANT CONNECT ON DATABASE {database} TO {role};"),
        format!("GRANT USAGE ON SCHEMA {schema} TO {role};"),
        format!("GRANT SELECT ON {schema}.{table} TO {role};"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::setup::tests::settings;
    use super::*;

    #[test]
    fn a_role_gets_one_database_one_schema_and_one_table() {
        let settings = Settings {
            user: "cd\"c".into(),
            ..settings()
        };
        let Rights { whose, grants } = rights(&settings);
        assert_eq!(whose, "role cd\"c of PostgreSQL at localhost:5432");
        assert_eq!(
            grants,
            [
                "CREATE ROLE \"cd\"\"c\" LOGIN REPLICATION PASSWORD '...';",
                "GRANT CONNECT ON DATABASE \"shop\" TO \"cd\"\"c\";",
                "GRANT USAGE ON SCHEMA \"eventlog\" TO \"cd\"\"c\";",
                "GRANT SELECT ON \"eventlog\".\"events\" TO \"cd\"\"c\";",
            ]
        );
    }
}
