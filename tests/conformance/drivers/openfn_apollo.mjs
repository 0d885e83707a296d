// Calls a service as `openfn apollo <service> <payload> --apollo-url <url>` does: the messages are those of the command,
// and so are the WebSocket client and the logger. Arguments: the way (`socket`, or `post` as in its first versions),
// the service, the path of the payload, the server's URL. The result is printed as JSON, the log on standard error.

import { readFile } from 'node:fs/promises';
import createLogger from '@openfn/logger';
import { WebSocket } from 'ws';

const [way, service, path, url] = process.argv.slice(2);
const payload = JSON.parse(await readFile(path, 'utf8'));
const print = (...values) => console.error(...values);
const sink = { log: print, info: print, debug: print, warn: print, error: print, success: print, always: print };
const logger = createLogger('APO', { level: 'debug', logger: sink });

const ways = {
  // It never looks at `error` and `close`, so a refused upgrade would leave it waiting.
  socket: () => new Promise((resolve) => {
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/services/${service}`);
    socket.addEventListener('open', () => socket.send(JSON.stringify({ event: 'start', data: payload })));
    socket.addEventListener('message', ({ data }) => {
      const message = JSON.parse(data);
      if (message.event === 'log') logger.info(message.data);
      if (message.event === 'complete') resolve(message.data);
    });
  }),
  post: async () => {
    const headers = { 'Content-Type': 'application/json' };
    const response = await fetch(`${url}/services/${service}`, { method: 'POST', headers, body: JSON.stringify(payload) });
    return response.json();
  },
};

process.stdout.write(JSON.stringify(await ways[way](), undefined, 2), () => process.exit(0));
