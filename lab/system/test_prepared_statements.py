"""Statements on a server that has reached its limit of prepared statements."""
import sqlalchemy as sa

from blockattach.platform.conf import database as database_conf
from blockattach.platform.db import opening
from blockattach.platform.db import statements
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from lab.system import clouds

STATEMENTS = [statements.Statement(lambda dialect, number=number: sa.select(
    sa.literal_column(str(number)).label('number'))) for number in range(5)]


class FullServerTest(base.StackTestCase):

    def test_texts_are_sent_again(self):
        server = self.enterContext(clouds.started(servers.MariaDB))
        opened = opening.open_engine(database_conf.DatabaseSettings(server.url))
        self.addCleanup(opened.dispose)
        with opened.connect() as connection, opened.connect() as other:
            connection.exec_driver_sql('SET GLOBAL max_prepared_stmt_count = 2')
            for one in (connection, other, connection, other):
                self.assertEqual(list(range(5)),
                                 [statement.first(one).number for statement in STATEMENTS])
