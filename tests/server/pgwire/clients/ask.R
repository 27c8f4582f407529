# Browse, then ask one question, from R.
suppressMessages(library(RPostgreSQL))
con <- dbConnect(PostgreSQL(), host = Sys.getenv("PGHOST"), port = as.integer(Sys.getenv("PGPORT")),
                 dbname = "sulq", user = Sys.getenv("PGUSER"), password = Sys.getenv("PGPASSWORD"))
cat("tables", dbListTables(con), "\n")
cat("columns", dbListFields(con, "people"), "\n")
if (length(commandArgs(trailingOnly = TRUE)) == 0) {
  invisible(dbGetQuery(con, "set sulq.spend = 3"))
  found <- dbGetQuery(con, "select region, count(*) as n from people where age > 40 group by region")
  cat("rows", nrow(found), class(found$n), "\n")
}
invisible(dbDisconnect(con))
