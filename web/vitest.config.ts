import { resolve } from 'node:path';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  resolve: { alias: { '@': resolve(import.meta.dirname, 'src') } },
  test: {
    include: ['src/**/*.test.{ts,tsx}'],
    environment: 'node',
    setupFiles: ['src/testing/fake-window.ts'],
    // Long, because the machine may be busy.
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
