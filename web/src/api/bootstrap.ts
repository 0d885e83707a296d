/** The one answer that the first view needs; index.html asks for it before any script runs. */
import { queryOptions } from '@tanstack/react-query';
import { api, type Schemas } from './api';
import { client, workflows } from './queries';

export type Bootstrap = Schemas['Bootstrap'];

export const bootstrap = () =>
  queryOptions({
    queryKey: ['bootstrap'],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }) => {
      const told = await api('get', '/api/bootstrap', { signal });
      if (!told.workflows.next) client.setQueryData(workflows().queryKey, told.workflows);
      return told;
    },
  });
