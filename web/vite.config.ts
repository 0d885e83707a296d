/** How the page is built: into the Python package, with addresses that the server completes (see index.html). */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { type Plugin, type UserConfig, defineConfig } from 'vite';

const SRC = resolve(import.meta.dirname, 'src');
const OUT = resolve(import.meta.dirname, '../src/palaver/web');

/** Vite's own paths and the page's addresses (server/routing.py has the same); all others are the server's. */
const NOT_PROXIED =
  'src/|node_modules/|@|(play|workflows|traces|sessions|testsets|evaluations|reviews|settings|login)?([/?]|$)';

/** In development there is no root path and no policy to satisfy. */
function unrooted(): Plugin {
  return {
    name: 'palaver-unrooted',
    apply: 'serve',
    transformIndexHtml: (html) => html.replaceAll('/__ROOT__', '').replaceAll('__NONCE__', ''),
  };
}

/** `make web` brings its own server, on a port that nobody has. */
function served(command: string, url: string): Plugin {
  return {
    name: 'palaver-served',
    configureServer(server) {
      const child = spawn(command, ['demo', '--no-browser', '--port', new URL(url).port], { stdio: 'inherit' });
      const end = () => child.kill();
      child.once('error', (error) => server.config.logger.error(`${command}: ${error.message}`));
      child.once('exit', () => process.off('exit', end));
      process.once('exit', end);
      server.httpServer?.once('close', end);
    },
  };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  return port;
}

/** Every text file also gzip'd: the server sends what the browser takes, and compresses nothing itself. */
function gzipped(): Plugin {
  return {
    name: 'palaver-gzipped',
    apply: 'build',
    writeBundle({ dir = OUT }, bundle) {
      for (const name of Object.keys(bundle)) {
        if (/^assets\/.*\.(js|css|svg)$/.test(name)) {
          const file = join(dir, name);
          writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
        }
      }
    },
  };
}

export default defineConfig(async ({ command }): Promise<UserConfig> => {
  const ours = command === 'serve' && !process.env.PALAVER_URL ? process.env.PALAVER_COMMAND : undefined;
  const url = process.env.PALAVER_URL ?? `http://localhost:${ours ? await freePort() : 8642}`;
  return {
    plugins: [react(), tailwindcss(), unrooted(), gzipped(), ours ? served(ours, url) : null],
    resolve: { alias: { '@': SRC } },
    build: {
      outDir: OUT,
      emptyOutDir: true,
      target: 'es2022',
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      chunkSizeWarningLimit: 2_000, // tests/e2e weighs the first view, gzip'd.
      // What others wrote goes into the wheel with the licence that they gave it.
      license: { fileName: 'licenses.md' },
    },
    experimental: {
      renderBuiltUrl: (filename, { hostType }) => (hostType === 'html' ? `/__ROOT__/${filename}` : { relative: true }),
    },
    server: {
      proxy: { [`^/(?!${NOT_PROXIED})`]: { target: url, ws: true, changeOrigin: true, headers: { origin: url } } },
    },
  };
});
