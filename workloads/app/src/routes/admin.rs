//! Management. Every route needs a key with the scope `admin`, also on a stack whose other routes need none.

pub mod links;
