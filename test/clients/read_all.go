// Reads the result of each query of standard input, one a line, with pgx.
//
// The server's address is in DATABASE_URL.  Prints the number of rows of each result, or the error.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v4"
)

func count(conn *pgx.Conn, query string) (int, error) {
	rows, err := conn.Query(context.Background(), query)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		if _, err := rows.Values(); err != nil {
			return n, err
		}
	}
	return n, rows.Err()
}

func main() {
	conn, err := pgx.Connect(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(context.Background())
	for queries := bufio.NewScanner(os.Stdin); queries.Scan(); {
		if n, err := count(conn, queries.Text()); err != nil {
			fmt.Printf("%s: %v\n", queries.Text(), err)
		} else {
			fmt.Println(n)
		}
	}
}
