import java.sql.*;
import java.util.*;

public class Ask {
    public static void main(String[] args) throws Exception {
        Properties said = new Properties();
        said.setProperty("user", args[1]);
        said.setProperty("password", args[2]);
        said.setProperty("options", "-c sulq.spend=3");
        try (Connection c = DriverManager.getConnection(args[0], said)) {
            DatabaseMetaData m = c.getMetaData();
            System.out.println("product " + m.getDatabaseProductName() + " " + m.getDatabaseProductVersion());
            show("tables", m.getTables(null, null, "%", new String[]{"TABLE", "VIEW"}), 3);
            show("columns", m.getColumns(null, "public", "people", "%"), 4);
            show("keys", m.getPrimaryKeys(null, "public", "people"), 4);
            show("indexes", m.getIndexInfo(null, "public", "people", false, true), 6);
            show("imported", m.getImportedKeys(null, "public", "people"), 3);
            show("schemas", m.getSchemas(), 1);
            show("catalogs", m.getCatalogs(), 1);
            show("types", m.getTypeInfo(), 1);
            show("privileges", m.getTablePrivileges(null, "public", "people"), 3);
            show("functions", m.getFunctions(null, null, "%"), 3);
            show("procedures", m.getProcedures(null, null, "%"), 3);
            System.out.println("keywords " + m.getSQLKeywords().length());
            System.out.println("browsed");
            System.out.flush();
            if (args.length > 3) return;
            try (PreparedStatement s = c.prepareStatement("select region, count(*) as n from people where age > ? and city = ? group by region")) {
                s.setInt(1, 40);
                s.setString(2, "rome");
                for (int i = 0; i < 7; i++) {
                    StringBuilder line = new StringBuilder();
                    try (ResultSet r = s.executeQuery()) {
                        while (r.next()) line.append(r.getString(1)).append('=').append(r.getDouble("n")).append(' ');
                    }
                    System.out.println("row " + line);
                }
            }
            c.setAutoCommit(false);
            try (Statement s = c.createStatement()) {
                s.setFetchSize(1);
                try (ResultSet r = s.executeQuery("select region, count(*) from people group by region")) {
                    while (r.next()) System.out.println("fetched " + r.getString(1));
                }
                try { s.executeQuery("select * from people"); }
                catch (SQLException e) { System.out.println("refused " + e.getSQLState()); }
            }
            c.rollback();
        }
    }

    static void show(String what, ResultSet r, int at) throws SQLException {
        List<String> found = new ArrayList<>();
        while (r.next()) found.add(r.getString(at));
        if (found.size() > 12) found = found.subList(0, 12);
        System.out.println(what + " " + found);
    }
}
