/** All that Databricks' provider wants of Node's crypto: a name that is nobody else's (vite.config.ts puts this in its place). */
export { generateId as randomUUID } from 'ai';
