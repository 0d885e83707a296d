/** The page: which view an address names, inside the shell. What the first view does not need is fetched when it is. */
import { lazy, Suspense, type ReactNode } from 'react';
import { Redirect, Route, Router, Switch } from 'wouter';
import { BoardPage } from '@/board/page';
import { ROOT } from '@/lib/root';
import { Empty, Spinner } from '@/ui/bits';
import { Toasts } from '@/ui/toast';
import { Shell } from './shell';

const WorkflowsPage = lazy(() => import('@/workflows/page'));
const TracesPage = lazy(() => import('@/traces/page'));
const TracePage = lazy(() => import('@/trace/page'));
const SessionsPage = lazy(() => import('@/sessions/page'));
const SettingsPage = lazy(() => import('@/settings/page'));
const LoginPage = lazy(() => import('@/settings/login'));

export function App(): ReactNode {
  return (
    <Router base={ROOT}>
      <Suspense fallback={<div className="p-8"><Spinner /></div>}>
        <Switch>
          <Route path="/login" component={LoginPage} />
          <Route>
            <Shell>
              <Switch>
                <Route path="/"><Redirect to="/play" replace /></Route>
                <Route path="/play/:what?">{({ what }) => <BoardPage what={what} />}</Route>
                <Route path="/workflows/:name?">{({ name }) => <WorkflowsPage name={name} />}</Route>
                <Route path="/traces" component={TracesPage} />
                <Route path="/traces/:trace">{({ trace }) => <TracePage key={trace} trace={trace} />}</Route>
                <Route path="/sessions/:session?">{({ session }) => <SessionsPage {...(session === undefined ? {} : { session })} />}</Route>
                <Route path="/settings" component={SettingsPage} />
                <Route><Empty title="There is nothing here">The address names no view of this page.</Empty></Route>
              </Switch>
            </Shell>
          </Route>
        </Switch>
      </Suspense>
      <Toasts />
    </Router>
  );
}
