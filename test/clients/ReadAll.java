// Reads the result of each query of standard input, one a line, with JDBC.
//
// The server's address is in JDBC_URL.  Prints the number of rows of each result, or the error.
import java.io.*;
import java.sql.*;
import java.time.OffsetDateTime;

public class ReadAll {
    public static void main(String[] arguments) throws Exception {
        BufferedReader queries = new BufferedReader(new InputStreamReader(System.in));
        try (Connection connection = DriverManager.getConnection(System.getenv("JDBC_URL")); Statement statement = connection.createStatement()) {
            for (String query; (query = queries.readLine()) != null; ) {
                try (ResultSet rows = statement.executeQuery(query)) {
                    ResultSetMetaData columns = rows.getMetaData();
                    int count = 0;
                    for (; rows.next(); count++) {
                        for (int i = 1; i <= columns.getColumnCount(); i++) {
                            Object value = rows.getObject(i);
                            if (value instanceof Array)
                                ((Array) value).getArray();
                            if (columns.getColumnTypeName(i).equals("timestamptz"))
                                rows.getObject(i, OffsetDateTime.class);
                        }
                    }
                    System.out.println(count);
                } catch (Exception error) {
                    System.out.println(query + ": " + error);
                }
            }
        }
    }
}
