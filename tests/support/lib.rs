//! What the tests share: the ruler, the oracle, random models, golden cases, the fuzz targets' bodies.

pub mod fuzz;
pub mod golden;
pub mod images;
pub mod oracle;
pub mod random;
pub mod tolerance;
