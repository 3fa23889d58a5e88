//! A schema compiled once: what to do with a value, without looking anything up by name twice.

use super::decimal::Decimal;
use super::default::{self, Unwritable};
use super::fingerprint::{self, Header};
use super::logical::{Logical, Meaning, Primitive};
use super::schema::{Field as SchemaField, Schema, Type, TypeId};
use crate::names::{Guesses, Names};
use crate::notice::Place;

#[derive(Debug)]
pub struct Plan {
    pub header: Header,
    /// The payload's own record.
    pub root: u32,
    /// One for each of the schema's types.
    nodes: Vec<Node>,
    pub records: Vec<Record>,
    pub unions: Vec<Union>,
    pub enums: Vec<Enum>,
    pub fixed: Vec<Fixed>,
    pub decimals: Vec<Decimal>,
    /// The most branches that one of its unions has.
    pub widest: usize,
}

/// What to do with one value.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    pub shape: Shape,
    /// The type as failures tell it: `LONG/timestamp-millis`.
    pub declared: &'static str,
}

/// Numbers are places in the plan's lists.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    /// So many units a second.
    Timestamp(u32),
    Date,
    Uuid,
    /// The reference cannot write a uuid to a fixed, and neither do we.
    UuidFixed,
    Decimal(u32),
    Enum(u32),
    Fixed(u32),
    Array(u32),
    Map(u32),
    Record(u32),
    /// A union with one branch besides null, or without null.
    Optional {
        null: Option<u32>,
        index: u32,
        branch: u32,
    },
    Union(u32),
}

impl Shape {
    /// A value of it holds no other values, and is not chosen among branches.
    #[inline]
    pub fn is_leaf(self) -> bool {
        !matches!(
            self,
            Shape::Array(_)
                | Shape::Map(_)
                | Shape::Record(_)
                | Shape::Optional { .. }
                | Shape::Union(_)
        )
    }
}

#[derive(Debug)]
pub struct Record {
    pub name: Box<str>,
    pub place: Place,
    pub fields: Box<[Field]>,
    pub names: Names<u32>,
}

#[derive(Debug)]
pub struct Field {
    pub name: Box<str>,
    pub node: Node,
    pub default: Option<Box<[u8]>>,
}

#[derive(Debug)]
pub struct Union {
    pub place: Place,
    /// Its branches in few words.
    pub told: Box<str>,
    pub null: Option<u32>,
    /// All others, with their indexes.
    pub branches: Box<[(u32, Node)]>,
    /// The index of its text branch.
    pub text: Option<u32>,
}

#[derive(Debug)]
pub struct Enum {
    pub symbols: Box<[Box<str>]>,
    pub names: Names<u32>,
}

#[derive(Debug)]
pub struct Fixed {
    pub name: Box<str>,
    pub size: usize,
}

/// Makes the plans of one encoder: their places and guesses share one count.
#[derive(Debug, Default)]
pub struct Compiling {
    pub guesses: Guesses,
    places: u32,
}

impl Compiling {
    fn place(&mut self) -> Place {
        self.places += 1;
        Place(self.places)
    }

    fn names<'n>(&mut self, names: impl Iterator<Item = &'n str>) -> Names<u32> {
        Names::new(names.zip(0..), &mut self.guesses)
    }
}

impl Plan {
    pub fn compile(schema: &Schema<'_>, compiling: &mut Compiling) -> Result<Plan, String> {
        let mut plan = Plan {
            header: fingerprint::header(schema),
            root: 0,
            nodes: Vec::with_capacity(schema.types.len()),
            records: Vec::new(),
            unions: Vec::new(),
            enums: Vec::new(),
            fixed: Vec::new(),
            decimals: Vec::new(),
            widest: 0,
        };
        for of in &schema.types {
            let node = plan.node(schema, of, compiling);
            plan.nodes.push(node);
        }
        // Types refer to each other in circles: their nodes come first, then what is inside them.
        for (of, id) in schema.types.iter().zip(0..) {
            match (of, plan.at(id).shape) {
                (Type::Record { fields, .. }, Shape::Record(record)) => {
                    plan.records[record as usize].fields = plan.fields(schema, fields)?;
                }
                (Type::Union(branches), Shape::Union(union)) => {
                    let others = plan.branches(schema, branches);
                    plan.widest = plan.widest.max(others.len());
                    plan.unions[union as usize].branches = others;
                }
                _ => {}
            }
        }
        if let Shape::Record(root) = plan.at(schema.root).shape {
            plan.root = root;
        }
        Ok(plan)
    }

    /// What to do with a value of the schema's type.
    #[inline]
    pub fn at(&self, id: TypeId) -> Node {
        self.nodes[id as usize]
    }
}

/// Making nodes.
impl Plan {
    fn node(&mut self, schema: &Schema<'_>, of: &Type<'_>, compiling: &mut Compiling) -> Node {
        match of {
            Type::Primitive(primitive, logical) => {
                let shape = plain(*primitive);
                self.logical(*logical, shape, primitive.declared())
            }
            Type::Fixed {
                name,
                size,
                logical,
            } => {
                let (name, size) = (name.as_str().into(), *size as usize);
                let shape = Shape::Fixed(push(&mut self.fixed, Fixed { name, size }));
                self.logical(*logical, shape, "FIXED")
            }
            Type::Enum { symbols, .. } => {
                let known = Enum {
                    symbols: symbols
                        .iter()
                        .map(|symbol| symbol.as_str().into())
                        .collect(),
                    names: compiling.names(symbols.iter().map(String::as_str)),
                };
                node(Shape::Enum(push(&mut self.enums, known)), "ENUM")
            }
            Type::Array(of) => node(Shape::Array(*of), "ARRAY"),
            Type::Map(of) => node(Shape::Map(*of), "MAP"),
            Type::Record { name, fields } => {
                let record = Record {
                    name: name.as_str().into(),
                    place: compiling.place(),
                    fields: Box::default(),
                    names: compiling.names(fields.iter().map(|field| field.name.as_str())),
                };
                node(Shape::Record(push(&mut self.records, record)), "RECORD")
            }
            Type::Union(branches) => self.union(schema, branches, compiling),
            // A schema that mentions what it does not define has been refused.
            Type::Mentioned(_) => node(Shape::Null, "NULL"),
        }
    }

    fn logical(&mut self, logical: Option<Logical>, plain: Shape, declared: &'static str) -> Node {
        let Some(logical) = logical else {
            return node(plain, declared);
        };
        let shape = match (logical.meaning, plain) {
            (Meaning::Plain, plain) => plain,
            (Meaning::Timestamp(units), _) => Shape::Timestamp(units),
            (Meaning::Date, _) => Shape::Date,
            (Meaning::Uuid, Shape::Fixed(_)) => Shape::UuidFixed,
            (Meaning::Uuid, _) => Shape::Uuid,
            (Meaning::Decimal(decimal), _) => Shape::Decimal(push(&mut self.decimals, decimal)),
        };
        node(shape, logical.declared)
    }

    fn union(
        &mut self,
        schema: &Schema<'_>,
        branches: &[TypeId],
        compiling: &mut Compiling,
    ) -> Node {
        let position = |wanted: Primitive| {
            let is_wanted = |id: &TypeId| matches!(schema.get(*id), Type::Primitive(found, _) if *found == wanted);
            branches.iter().position(is_wanted).map(number)
        };
        let null = position(Primitive::Null);
        let others = || {
            branches
                .iter()
                .zip(0..)
                .filter(|(_, index)| Some(*index) != null)
        };
        if let (Some((branch, index)), 1) = (others().next(), others().count()) {
            let shape = Shape::Optional {
                null,
                index,
                branch: *branch,
            };
            return node(shape, "UNION");
        }
        let told: Vec<String> = branches.iter().map(|id| schema.told(*id)).collect();
        let union = Union {
            place: compiling.place(),
            told: format!("[{}]", told.join(",")).into(),
            null,
            branches: Box::default(),
            text: position(Primitive::Text),
        };
        node(Shape::Union(push(&mut self.unions, union)), "UNION")
    }

    fn fields(
        &self,
        schema: &Schema<'_>,
        fields: &[SchemaField<'_>],
    ) -> Result<Box<[Field]>, String> {
        let compiled = fields.iter().map(|field| {
            let default = field
                .default
                .map(|json| default::encode(schema, field.of, json));
            let default = default.transpose();
            let default =
                default.map_err(|Unwritable(what)| format!("field {}: {what}", field.name))?;
            Ok(Field {
                name: field.name.as_str().into(),
                node: self.at(field.of),
                default: default.map(Vec::into_boxed_slice),
            })
        });
        compiled.collect()
    }

    fn branches(&self, schema: &Schema<'_>, branches: &[TypeId]) -> Box<[(u32, Node)]> {
        let is_null = |id: TypeId| matches!(schema.get(id), Type::Primitive(Primitive::Null, _));
        let others = branches.iter().zip(0..).filter(|(id, _)| !is_null(**id));
        others.map(|(id, index)| (index, self.at(*id))).collect()
    }
}

fn node(shape: Shape, declared: &'static str) -> Node {
    Node { shape, declared }
}

fn plain(primitive: Primitive) -> Shape {
    match primitive {
        Primitive::Null => Shape::Null,
        Primitive::Boolean => Shape::Boolean,
        Primitive::Int => Shape::Int,
        Primitive::Long => Shape::Long,
        Primitive::Float => Shape::Float,
        Primitive::Double => Shape::Double,
        Primitive::Bytes => Shape::Bytes,
        Primitive::Text => Shape::Text,
    }
}

/// Adds to a list; where it is.
fn push<T>(list: &mut Vec<T>, item: T) -> u32 {
    list.push(item);
    number(list.len() - 1)
}

/// There are fewer of anything than bytes in a schema's text, which is shorter than 4 GiB.
fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
